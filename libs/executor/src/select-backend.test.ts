import { executionRequestSchema, type ExecutionRequestInput, type Isolation } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { tenantOf } from '../test/attempts.ts'
import { scriptedBackend } from '../test/scripted-backend.ts'
import { nothingLeft, selectBackends } from './select-backend.ts'

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

function select(request: Partial<ExecutionRequestInput>, min: Isolation) {
  const parsed = executionRequestSchema.parse({
    tenant_id: 'acme',
    agent_id: 'a',
    program: { type: 'script', language: 'python', source: '' },
    ...request,
  })
  const selection = selectBackends(
    { backends, order },
    parsed,
    tenantOf({ min_isolation: min }),
    parsed.network,
  )
  return { ...selection, names: selection.candidates.map((backend) => backend.name) }
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

  it('gives a reason for each backend that it refuses', () => {
    expect(select({ network: 'public' }, 'container').rejections).toEqual([
      {
        backend: 'none',
        reason: 'isolation_unavailable',
        detail: 'isolates by none, but the policy requires at least container',
      },
      {
        backend: 'process',
        reason: 'isolation_unavailable',
        detail: 'isolates by process, but the policy requires at least container',
      },
      { backend: 'jail', reason: 'capability_missing', detail: 'does not offer network public' },
    ])
  })

  it('takes only the named backend, and does not let the name pass the policy', () => {
    expect(select({ backend: 'container' }, 'jail').names).toEqual(['container'])
    expect(select({ backend: 'none' }, 'process').names).toEqual([])
  })

  it('refuses an unknown name and lists the known ones', () => {
    expect(() => select({ backend: 'dokcer' }, 'none')).toThrow(/"dokcer".*container/)
  })
})

describe('nothingLeft', () => {
  it('lists every backend and takes the word of the one that came nearest', () => {
    const failure = nothingLeft([
      { backend: 'process', reason: 'isolation_unavailable', detail: 'is too weak' },
      { backend: 'docker', reason: 'circuit_open', detail: 'rests' },
    ])
    expect(failure).toMatchObject({
      reason: 'backend_unavailable',
      message: 'No backend can run this: process is too weak; docker rests.',
    })
  })

  it('says so when there is no backend at all', () => {
    expect(nothingLeft([]).message).toBe('No backend is configured on this worker.')
  })
})
