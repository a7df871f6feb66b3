import { describe, expect, it } from 'vitest'
import { createKeyCache } from './key-cache.ts'

const KEY = `cfd_${'a'.repeat(40)}`

function scene() {
  const state = { nowMs: 0, asked: 0, alive: true, gate: Promise.resolve() }
  const cache = createKeyCache({
    now: () => state.nowMs,
    verify: async (key) => {
      state.asked += 1
      const alive = state.alive
      await state.gate
      return alive && key === KEY ? { id: 'key_1', scope: 'admin' } : null
    },
  })
  return { state, cache }
}

describe('the key cache', () => {
  it('asks once for calls within five seconds and again after', async () => {
    const { state, cache } = scene()
    expect(await cache.verify(KEY)).toEqual({ keyId: 'key_1', scope: 'admin' })
    state.nowMs = 4999
    await cache.verify(KEY)
    expect(state.asked).toBe(1)
    state.nowMs = 5000
    await cache.verify(KEY)
    expect(state.asked).toBe(2)
  })

  it('asks once for calls at the same moment', async () => {
    const { state, cache } = scene()
    await Promise.all([cache.verify(KEY), cache.verify(KEY), cache.verify(KEY)])
    expect(state.asked).toBe(1)
  })

  it('remembers refusals too', async () => {
    const { state, cache } = scene()
    expect(await cache.verify('cfd_no')).toBeNull()
    expect(await cache.verify('cfd_no')).toBeNull()
    expect(state.asked).toBe(1)
  })

  it('keeps good keys while a flood of guesses passes', async () => {
    const { state, cache } = scene()
    await cache.verify(KEY)
    for (let i = 0; i < 5000; i += 1) await cache.verify(`cfd_${i}`)
    await cache.verify(KEY)
    expect(state.asked).toBe(5001)
  })

  it('forgets a revoked key at once, also while it is being asked', async () => {
    const { state, cache } = scene()
    const gate = Promise.withResolvers<void>()
    state.gate = gate.promise
    const early = cache.verify(KEY)
    state.alive = false
    cache.forget('key_1')
    gate.resolve()
    expect(await early).not.toBeNull()
    expect(await cache.verify(KEY)).toBeNull()
  })

  it('does not remember an outage', async () => {
    let down = true
    const cache = createKeyCache({
      now: () => 0,
      verify: async () => {
        if (down) throw new Error('away')
        return { id: 'key_1', scope: 'admin' }
      },
    })
    await expect(cache.verify(KEY)).rejects.toThrow('away')
    down = false
    expect(await cache.verify(KEY)).not.toBeNull()
  })
})
