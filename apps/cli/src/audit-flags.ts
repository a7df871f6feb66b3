/** The flags that filter audit rows, and the API query that they make. */
import { ENDINGS, EXIT_STATUSES, PROGRAM_KINDS } from '@cofferdam/contract'
import type { CommandLine, Flag } from './command.ts'
import { durationFlag, textFlag } from './parse-command-line.ts'
import { UsageError } from './usage-error.ts'

export const AUDIT_FLAGS = {
  tenant: { type: 'string', value: 'ID', description: 'only this tenant' },
  agent: { type: 'string', value: 'ID', description: 'only this agent' },
  user: { type: 'string', value: 'ID', description: 'only this user' },
  run: { type: 'string', value: 'ID', description: 'only this run' },
  template: { type: 'string', value: 'ID', description: 'only this template' },
  status: {
    type: 'string',
    value: 'NAME',
    description: `only this exit status: ${EXIT_STATUSES.join(', ')}`,
  },
  ending: { type: 'string', value: 'NAME', description: `only this ending: ${ENDINGS.join(', ')}` },
  backend: { type: 'string', value: 'NAME', description: 'only this backend' },
  kind: { type: 'string', value: 'KIND', description: `only these programs: ${PROGRAM_KINDS.join(', ')}` },
  session: { type: 'string', value: 'ID', description: 'only this session (ses_…)' },
  'min-duration': { type: 'string', value: 'TIME', description: 'only attempts that took this long: 5s, 2m' },
  'max-duration': { type: 'string', value: 'TIME', description: 'only attempts that took no longer' },
  trace: { type: 'string', value: 'ID', description: 'only this trace (32 hex digits)' },
  'code-hash': { type: 'string', value: 'SHA256', description: 'only this program' },
  host: { type: 'string', value: 'HOST', description: 'only executions that connected to HOST or HOST:PORT' },
  since: {
    type: 'string',
    value: 'TIME',
    description: 'enqueued within the last 30m, 24h … or since a time (ISO 8601)',
  },
  until: { type: 'string', value: 'TIME', description: 'enqueued before then, written like --since' },
} as const satisfies Record<string, Flag>

const NAMES = {
  tenant: 'tenant_id',
  agent: 'agent_id',
  user: 'user_id',
  run: 'run_id',
  template: 'template_id',
  status: 'exit_status',
  ending: 'ending',
  backend: 'backend',
  kind: 'program_kind',
  session: 'session_id',
  trace: 'trace_id',
  'code-hash': 'code_hash',
  host: 'outbound_host',
} as const

/** The filters under the API's names. `timed` includes --since and --until. */
export function auditParameters(line: CommandLine, timed: boolean): Record<string, string> {
  const given = Object.entries(NAMES).flatMap(([flag, name]): [string, string][] => {
    const value = textFlag(line, flag)
    return value === undefined ? [] : [[name, value]]
  })
  for (const which of ['min', 'max']) {
    const ms = durationFlag(line, `${which}-duration`)
    if (ms !== undefined) given.push([`${which}_duration_ms`, String(ms)])
  }
  const times = timed ? { from: momentFlag(line, 'since'), to: momentFlag(line, 'until') } : {}
  for (const [name, value] of Object.entries(times)) if (value !== undefined) given.push([name, value])
  return Object.fromEntries(given)
}

export const auditPath = (what: string, parameters: Record<string, string>): string =>
  `/v1/audit/${what}?${new URLSearchParams(parameters).toString()}`

/** A time from a flag. `24h` means 24 hours ago. */
export function momentFlag(line: CommandLine, flag: string): string | undefined {
  const text = textFlag(line, flag)
  if (text === undefined) return undefined
  if (/^\d{4}-\d\d-\d\d/.test(text)) {
    const ms = Date.parse(text)
    if (Number.isNaN(ms))
      throw new UsageError(`--${flag} expects 24h or a time such as 2026-11-20T12:00:00Z, got ${text}.`)
    return new Date(ms).toISOString()
  }
  return new Date(Date.now() - (durationFlag(line, flag) ?? 0)).toISOString()
}
