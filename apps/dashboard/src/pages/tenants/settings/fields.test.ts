import { expect, it } from 'vitest'
import { RULES } from '../rules.ts'
import { mapOf } from './field-parts.ts'
import { changesOf, draftOf, lineProblem, othersOf, patchOf, wordsOf, type Field } from './fields.ts'

const daily: Field = { name: 'tenant_daily', words: 'Daily', kind: 'number', empty: 'the fleet’s' }
const weight: Field = { name: 'weight', words: 'Weight', kind: 'number', fraction: true }
const flag: Field = { name: 'sandbox_enabled', words: 'Sandbox', kind: 'flag' }
const fields = [daily, weight, flag]
const read = { tenant_daily: null, weight: 1, sandbox_enabled: true, agents: { analyst: 3 } }

it('changes nothing that was not touched, and takes numbers for what they are', () => {
  const draft = draftOf(fields, read)
  expect(draft).toEqual({ tenant_daily: '', weight: '1', sandbox_enabled: 'true' })
  expect(changesOf(fields, read, { ...draft, weight: '1.0' })).toEqual([])
})

it('sends only what was changed, with null for an empty field', () => {
  const from = { ...read, tenant_daily: 7 }
  const changes = changesOf(fields, from, { tenant_daily: '', weight: '0.50', sandbox_enabled: 'false' })
  expect(patchOf(changes, from)).toEqual({ tenant_daily: null, weight: 0.5, sandbox_enabled: false })
  expect(patchOf(changesOf(fields, read, { ...draftOf(fields, read), tenant_daily: '0' }), read)).toEqual({
    tenant_daily: 0,
  })
})

it('names what somebody else changed, but not what has the wanted value already', () => {
  const draft = { ...draftOf(fields, read), tenant_daily: '500' }
  expect(othersOf(fields, read, { ...read, tenant_daily: 9 }, draft)).toEqual([daily])
  expect(othersOf(fields, read, { ...read, tenant_daily: 500 }, draft)).toEqual([])
  expect(othersOf(fields, read, { ...read, weight: 2 }, draft)).toEqual([weight])
  expect(othersOf(fields, read, read, draft)).toEqual([])
})

it.each([
  [daily, '', 'the fleet’s'],
  [daily, '12000', '12,000'],
  [weight, '0.25', '0.25'],
  [flag, 'false', 'no'],
])('puts %j with %j into words', (field, text, words) => {
  expect(wordsOf(field, text)).toBe(words)
})

const policy = {
  network: { allow: ['b.example', 'a.example:8443'] },
  environments: ['internal-only', 'default-public'],
  packages: { pypi: ['requests'], npm: ['@types/*'] },
  commands: { allow: [], block: ['curl', 'git push'] },
  templates: { required: false, agents: { analyst: 'strict' } },
  redact: ['a-secret-of-acme'],
}

it('reads lists as lines in order, and never a secret', () => {
  const draft = draftOf(RULES, policy)
  expect(draft).toEqual({
    network: 'a.example:8443\nb.example',
    environments: 'default-public, internal-only',
    pypi: 'requests',
    npm: '@types/*',
    allow: '(no program)',
    block: 'curl\ngit push',
    required: 'false',
    bound: 'analyst strict',
    redact_none: 'false',
    redact: '',
  })
  const same = { ...draft, network: ' b.example \n\na.example:8443\nb.example', bound: 'analyst   strict' }
  expect(changesOf(RULES, policy, same)).toEqual([])
  expect(
    draftOf(RULES, { ...policy, network: 'public', commands: { allow: null, block: [] } }),
  ).toMatchObject({
    network: 'public',
    allow: '',
    block: '',
  })
})

it('sends a list with what is there now of the property around it', () => {
  const sent = (draft: object, now: object = policy) =>
    patchOf(changesOf(RULES, policy, { ...draftOf(RULES, policy), ...draft }), now)
  const now = { ...policy, packages: { pypi: ['numpy'], npm: ['left-pad'] } }
  expect(sent({ pypi: 'requests\nscipy' }, now)).toEqual({
    packages: { pypi: ['requests', 'scipy'], npm: ['left-pad'] },
  })
  expect(sent({ pypi: '', npm: '' })).toEqual({ packages: { pypi: [], npm: [] } })
  expect(sent({ allow: '' })).toEqual({ commands: { allow: null, block: policy.commands.block } })
  expect(sent({ block: 'curl' })).toEqual({ commands: { allow: [], block: ['curl'] } })
  expect(sent({ network: '' })).toEqual({ network: 'none' })
  expect(sent({ network: 'public' })).toEqual({ network: 'public' })
  expect(sent({ network: 'c.example' })).toEqual({ network: { allow: ['c.example'] } })
  expect(sent({ environments: '' })).toEqual({ environments: [] })
  expect(sent({ bound: 'analyst strict\nother  lax', required: 'true' })).toEqual({
    templates: { required: true, agents: { analyst: 'strict', other: 'lax' } },
  })
  expect(sent({ redact: 'another-secret' })).toEqual({ redact: ['a-secret-of-acme', 'another-secret'] })
  expect(sent({ redact_none: 'true' })).toEqual({ redact: [] })
  expect(sent({ redact_none: 'true', redact: 'another-secret' })).toEqual({ redact: ['another-secret'] })
})

it('shows the lines that differ, and counts the others and secrets', () => {
  const field = RULES.find(({ name }) => name === 'npm')!
  const [was, is, own] = ['a\nb\nc', 'a\nb\nd', 'a\nb\nc\ne']
  const beside = [was, is, own]
  expect(beside.map((text) => wordsOf(field, text, beside))).toEqual([
    'c\n2 in common',
    'd\n2 in common',
    'c\ne\n2 in common',
  ])
  const many = Array.from({ length: 30 }, (_, n) => `p${n}`).join('\n')
  expect(wordsOf(field, many).split('\n').slice(-2)).toEqual(['p11', 'and 18 more'])
  const redact = RULES.find(({ name }) => name === 'redact')!
  expect(wordsOf(redact, 'another-secret', ['', 'another-secret'])).toBe('1 value')
})

const agents: Field = {
  name: 'agents',
  words: '',
  kind: 'lines',
  line: /^\w+ \d+$/,
  isMap: true,
  note: 'an agent and its cap',
  ...mapOf('agents', Number),
}

it('takes a map for lines with a name and a value, each name once', () => {
  expect(draftOf([agents], read)).toEqual({ agents: 'analyst 3' })
  const changes = changesOf([agents], read, { agents: 'analyst 4\nother 0' })
  expect(patchOf(changes, read)).toEqual({ agents: { analyst: 4, other: 0 } })
  expect(lineProblem(agents, 'analyst 4\nother 0')).toBe('')
  expect(lineProblem(agents, 'analyst 4\nother')).toBe('other: an agent and its cap')
  expect(lineProblem(agents, 'analyst 4\nanalyst 5')).toBe('analyst 5: an agent and its cap')
})

it.each([
  ['network', 'public', true],
  ['network', 'a.example\n*.b.example:8443', true],
  ['network', 'public\na.example', false],
  ['bound', 'analyst', false],
  ['redact', 'short', false],
  ['redact', 'long enough', false],
  ['redact', 'long enough!', true],
  ['allow', '(no program)\nls', false],
])('for %s, whether %j is valid is %s', (name, text, isValid) => {
  expect(
    lineProblem(
      RULES.find((field) => field.name === name)!,
      text,
    ) === '',
  ).toBe(isValid)
})
