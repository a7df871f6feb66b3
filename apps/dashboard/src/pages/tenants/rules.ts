/** The rules of a policy as fields, mostly lists. libs/contract/src/tenant.ts has the forms and bounds. */
import { mapOf, partOf } from './settings/field-parts.ts'
import type { Field, Value } from './settings/fields.ts'

/**
 * The line for an empty list, which allows no program. Without a list, all that are not blocked are allowed.
 */
const NO_PROGRAM = '(no program)'
const allow = partOf('commands', 'allow')

export const RULES: readonly Field[] = [
  {
    name: 'network',
    words: 'Network',
    kind: 'lines',
    alone: ['none', 'public'],
    empty: 'none',
    note: 'none, public, or the hosts, one a line: host, *.host or host:port',
    read: ({ network }) => network.allow ?? [network],
    write: (lines) => ({ network: networkOf(lines) }),
  },
  {
    name: 'environments',
    words: 'Environments',
    kind: 'choice',
    empty: 'none',
    choices: ['', 'default-public', 'internal-only', 'default-public, internal-only'],
    read: ({ environments }) => (environments as string[]).toSorted(),
    write: (text) => ({ environments: typeof text === 'string' ? text.split(', ') : [] }),
  },
  {
    name: 'pypi',
    words: 'Packages of PyPI',
    kind: 'lines',
    note: 'One a line: name, name==1.2.* or *',
    ...partOf('packages', 'pypi'),
  },
  {
    name: 'npm',
    words: 'Packages of npm',
    kind: 'lines',
    note: 'One a line: name, @scope/* or *',
    ...partOf('packages', 'npm'),
  },
  {
    name: 'allow',
    words: 'The only programs of commands',
    kind: 'lines',
    alone: [NO_PROGRAM],
    empty: 'all that are not blocked',
    note: `One a line, or ${NO_PROGRAM}`,
    read: (of) => {
      const programs = allow.read(of) as string[] | null
      return programs?.length === 0 ? [NO_PROGRAM] : programs
    },
    write: (lines, now) => allow.write(Array.isArray(lines) && lines[0] === NO_PROGRAM ? [] : lines, now),
  },
  {
    name: 'block',
    words: 'Blocked programs of commands',
    kind: 'lines',
    note: 'One a line, perhaps with its first words: git push',
    ...partOf('commands', 'block'),
  },
  {
    name: 'required',
    words: 'Every execution needs a template',
    kind: 'flag',
    ...partOf('templates', 'required'),
  },
  {
    name: 'bound',
    words: 'Templates of agents',
    kind: 'lines',
    line: /^\S+\s+\S+$/,
    isMap: true,
    note: 'Each agent once, on a line with its template: analyst strict',
    ...mapOf('agents', String, partOf('templates', 'agents')),
  },
  {
    name: 'redact_none',
    words: 'Forget all values to redact',
    kind: 'flag',
    isSecret: true,
    read: () => false,
    write: () => ({ redact: [] }),
  },
  {
    name: 'redact',
    words: 'More values to redact',
    kind: 'lines',
    line: /^.{12,4096}$/,
    isSecret: true,
    note: 'One a line, 12 characters or more. They are not shown again.',
    read: () => [],
    write: (lines, { redact }) => ({ redact: [...new Set([...redact, ...(lines as string[])])] }),
  },
]

function networkOf(lines: Value): Value {
  const hosts = (lines ?? ['none']) as string[]
  return hosts[0] === 'none' || hosts[0] === 'public' ? hosts[0] : { allow: hosts }
}
