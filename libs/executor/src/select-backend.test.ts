import { executionRequestSchema, type ExecutionRequestInput, type Isolation } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { tenantOf } from '../test/attempts.ts'
import { scriptedBackend } from '../test/scripted-backend.ts'
import { nothingLeft, selectBackends, tooWeak, type Selection } from './select-backend.ts'

const backends = new Map(
  (['none', 'process', 'jail', 'container', 'microvm-emulated', 'microvm'] as const).map((isolation) => [
    isolation as string,
    scriptedBackend({
      name: isolation,
      isolation,
      capabilities: isolation === 'jail' ? { network: ['none'] } : {},
    }),
  ]),
)
const order = [...backends.keys()]

const namesOf = ({ choices }: Selection): string[] =>
  choices.flatMap(({ backend, refusal }) => (refusal === null ? [backend.name] : []))

function select(request: Partial<ExecutionRequestInput>, min: Isolation, allow_emulation = true) {
  const parsed = executionRequestSchema.parse({
    tenant_id: 'acme',
    agent_id: 'a',
    program: { type: 'script', language: 'python', source: '' },
    ...request,
  })
  const selection = selectBackends(
    { backends, order },
    parsed,
    tenantOf({ min_isolation: min, allow_emulation }),
    parsed.network,
  )
  return { ...selection, names: namesOf(selection) }
}

describe('selectBackends', () => {
  it.each<[Isolation, Isolation | undefined, string[]]>([
    ['none', undefined, order],
    ['process', 'none', ['process', 'jail', 'container', 'microvm-emulated', 'microvm']],
    ['jail', undefined, ['jail', 'container', 'microvm-emulated', 'microvm']],
    ['jail', 'none', ['jail', 'container', 'microvm-emulated', 'microvm']],
    ['none', 'container', ['container', 'microvm-emulated', 'microvm']],
    ['container', 'microvm', ['microvm']],
    ['microvm', 'none', ['microvm']],
  ])('for a tenant at %s and a caller at %s takes %j', (tenant, caller, names) => {
    const request = caller === undefined ? {} : { min_isolation: caller }
    expect(select(request, tenant).names).toEqual(names)
  })

  it('emulates a machine only for a tenant whose policy allows it, even when the request names it', () => {
    expect(select({}, 'container', false).names).toEqual(['container', 'microvm'])
    expect(select({ backend: 'microvm-emulated' }, 'none', false).choices[0]?.refusal).toEqual({
      reason: 'isolation_unavailable',
      detail: 'only emulates a machine, which the policy allows with allow_emulation',
    })
    expect(select({ backend: 'microvm-emulated' }, 'none').names).toEqual(['microvm-emulated'])
    expect(select({ backend: 'microvm-emulated' }, 'microvm').names).toEqual([])
  })

  // The tiers of docs/sandboxes.md. Tiers 1 and 2 run nothing, because their policy has sandbox_enabled:
  // false.
  it.each<[string, string[], Isolation, Partial<ExecutionRequestInput>, string[]]>([
    ['3 on one machine', ['container'], 'container', {}, ['container']],
    ['3 in production', ['microvm', 'container', 'process'], 'container', {}, ['microvm', 'container']],
    ['3 that asks for none', ['container', 'none'], 'container', { backend: 'none' }, []],
    ['4', order, 'none', { backend: 'none' }, ['none']],
  ])('gives tier %s those of the backends %j that fit', (_tier, configured, min, request, names) => {
    const parsed = executionRequestSchema.parse({
      tenant_id: 'acme',
      agent_id: 'a',
      program: { type: 'script', language: 'python', source: '' },
      ...request,
    })
    const tenant = tenantOf({ min_isolation: min })
    expect(namesOf(selectBackends({ backends, order: configured }, parsed, tenant, 'none'))).toEqual(names)
  })

  it("finds a session's files on every backend with sessions, whatever it runs", () => {
    const program = { type: 'files', op: 'list' } as const
    const withSessions = scriptedBackend({ name: 'own', capabilities: { programs: [], sessions: ['files'] } })
    const without = scriptedBackend({ name: 'single', capabilities: { sessions: [] } })
    const parsed = executionRequestSchema.parse({
      tenant_id: 'acme',
      agent_id: 'a',
      program,
      session: { key: 'k' },
    })
    const found = new Map([withSessions, without].map((backend) => [backend.name, backend]))
    const selection = selectBackends(
      { backends: found, order: [...found.keys()] },
      parsed,
      tenantOf({ min_isolation: 'none' }),
      'none',
    )
    expect(namesOf(selection)).toEqual(['own'])
  })

  it('gives a reason for each backend that it refuses', () => {
    const { choices } = select({ network: 'public' }, 'container')
    expect(choices.map(({ backend, refusal }) => [backend.name, refusal])).toEqual([
      ['none', tooWeak('none', 'container')],
      ['process', tooWeak('process', 'container')],
      ['jail', { reason: 'capability_missing', detail: 'does not offer network public' }],
      ['container', null],
      ['microvm-emulated', null],
      ['microvm', null],
    ])
    expect(tooWeak('none', 'container')).toEqual({
      reason: 'isolation_unavailable',
      detail: 'isolates by none, but the policy requires at least container',
    })
  })

  it('takes only the named backend, and the name does not override the policy', () => {
    expect(select({ backend: 'container' }, 'jail').names).toEqual(['container'])
    expect(select({ backend: 'none' }, 'process').names).toEqual([])
  })

  it('refuses an unknown name and lists the known ones', () => {
    expect(() => select({ backend: 'dokcer' }, 'none')).toThrow(/"dokcer".*container/)
  })
})

describe('nothingLeft', () => {
  it('lists every backend and uses the reason of the one that came nearest', () => {
    const failure = nothingLeft([
      { backend: 'process', reason: 'isolation_unavailable', detail: 'is too weak' },
      { backend: 'docker', reason: 'circuit_open', detail: 'rests' },
    ])
    expect(failure).toMatchObject({
      reason: 'backend_unavailable',
      message: 'No backend can run this: process is too weak; docker rests.',
    })
  })

  it('reports when there is no backend at all', () => {
    expect(nothingLeft([]).message).toBe('No backend is configured on this worker.')
  })
})
