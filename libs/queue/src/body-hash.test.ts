import { executionRequestSchema, type ExecutionRequestInput } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { bodyHash, idempotencyName } from './body-hash.ts'

const request = (more: Partial<ExecutionRequestInput> = {}) =>
  executionRequestSchema.parse({
    tenant_id: 'acme',
    agent_id: 'a',
    program: { type: 'script', language: 'python', source: '1' },
    ...more,
  })

describe('the hash of a body', () => {
  it('does not depend on the idempotency key, the trace, or the order of fields', () => {
    const hash = bodyHash(request({ env: { A: '1', B: '2' } }))
    const trace = `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`
    expect(bodyHash(request({ env: { B: '2', A: '1' }, idempotency_key: 'k', traceparent: trace }))).toBe(
      hash,
    )
    expect(bodyHash({ ...request({ env: { A: '1', B: '2' } }), user_id: undefined } as never)).toBe(hash)
  })

  it('depends on everything else, including the order of lists', () => {
    const bodies = [
      request(),
      request({ priority: 6 }),
      request({ env: { A: '1' } }),
      request({ artifacts: ['a', 'b'] }),
      request({ artifacts: ['b', 'a'] }),
      request({ program: { type: 'script', language: 'python', source: '1 ' } }),
    ]
    expect(new Set(bodies.map(bodyHash)).size).toBe(bodies.length)
  })
})

describe('the Redis name of an idempotency key', () => {
  it('is bounded, differs between tenants, and is empty without a key', () => {
    expect(idempotencyName(request())).toBe('')
    expect(idempotencyName(request({ idempotency_key: '{x} \n:'.repeat(30) }))).toMatch(/^acme:[0-9a-f]{64}$/)
  })
})
