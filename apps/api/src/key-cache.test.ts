import { describe, expect, it } from 'vitest'
import { addressGroup, createGuessBrake } from './guess-brake.ts'
import { createKeyCache } from './key-cache.ts'

const KEY = `cfd_${'a'.repeat(40)}`
const HOME = '192.0.2.1'
const FOUND = { id: 'key_1', scope: 'admin', template_id: null, read_only: false } as const

function scene() {
  const state = { nowMs: 0, asked: 0, alive: true, gate: Promise.resolve() }
  const cache = createKeyCache({
    now: () => state.nowMs,
    brake: createGuessBrake(() => state.nowMs),
    keys: {
      verify: async (key) => {
        state.asked += 1
        const alive = state.alive
        await state.gate
        return alive && key === KEY ? FOUND : null
      },
      find: async (id) => {
        state.asked += 1
        return state.alive && id === FOUND.id ? FOUND : null
      },
    },
  })
  return { state, cache }
}

describe('the key cache', () => {
  it('looks up a key once for all calls within five seconds, and again afterwards', async () => {
    const { state, cache } = scene()
    expect(await cache.verify(KEY, HOME)).toEqual({
      keyId: 'key_1',
      scope: 'admin',
      templateId: null,
      readOnly: false,
    })
    state.nowMs = 4999
    await cache.verify(KEY, HOME)
    expect(state.asked).toBe(1)
    state.nowMs = 5000
    await cache.verify(KEY, HOME)
    expect(state.asked).toBe(2)
  })

  it('looks up a key once for concurrent calls', async () => {
    const { state, cache } = scene()
    await Promise.all([cache.verify(KEY, HOME), cache.verify(KEY, HOME), cache.verify(KEY, HOME)])
    expect(state.asked).toBe(1)
  })

  it('remembers refused keys as well', async () => {
    const { state, cache } = scene()
    expect(await cache.verify('cfd_no', HOME)).toBeNull()
    expect(await cache.verify('cfd_no', HOME)).toBeNull()
    expect(state.asked).toBe(1)
  })

  it('keeps valid keys while a flood of guesses passes', async () => {
    const { state, cache } = scene()
    await cache.verify(KEY, HOME)
    for (let i = 0; i < 5000; i += 1) await cache.verify(`cfd_${i}`, `192.0.2.${i}`)
    await cache.verify(KEY, HOME)
    expect(state.asked).toBe(5001)
  })

  it('refuses unknown keys from an address that guesses, without a lookup', async () => {
    const { state, cache } = scene()
    await cache.verify(KEY, HOME)
    for (let i = 0; i < 20; i += 1) await cache.verify(`cfd_${i}`, HOME)
    await expect(cache.verify('cfd_20', HOME)).rejects.toMatchObject({
      code: 'rate_limited',
      details: { retry_in_ms: 1000 },
    })
    expect(state.asked).toBe(21)
    // A key that has ever worked does not count as a guess, even after its cache entry expired. Keys from
    // another address are not affected.
    state.nowMs = 5000
    for (let i = 30; i < 35; i += 1) await cache.verify(`cfd_${i}`, HOME)
    await expect(cache.verify('cfd_36', HOME)).rejects.toMatchObject({ code: 'rate_limited' })
    expect(await cache.verify(KEY, HOME)).not.toBeNull()
    expect(await cache.verify('cfd_36', '192.0.2.2')).toBeNull()
  })

  it('treats a key that stopped working as unknown from then on', async () => {
    const { state, cache } = scene()
    await cache.verify(KEY, HOME)
    state.alive = false
    state.nowMs = 5000
    expect(await cache.verify(KEY, HOME)).toBeNull()
    expect(await cache.verify(KEY, HOME)).toBeNull()
    expect(state.asked).toBe(2)
  })

  it('removes a revoked key at once, even while it is being looked up', async () => {
    const { state, cache } = scene()
    const gate = Promise.withResolvers<void>()
    state.gate = gate.promise
    const early = cache.verify(KEY, HOME)
    state.alive = false
    cache.forget('key_1')
    gate.resolve()
    expect(await early).not.toBeNull()
    expect(await cache.verify(KEY, HOME)).toBeNull()
  })

  it('does not remember a failed lookup', async () => {
    let down = true
    const cache = createKeyCache({
      now: () => 0,
      brake: createGuessBrake(() => 0),
      keys: {
        verify: async () => {
          if (down) throw new Error('away')
          return FOUND
        },
        find: async () => null,
      },
    })
    await expect(cache.verify(KEY, HOME)).rejects.toThrow('away')
    down = false
    expect(await cache.verify(KEY, HOME)).not.toBeNull()
  })
})

describe('the key of a sign-in', () => {
  it('is looked up by its ID once within five seconds, and at once after it was revoked here', async () => {
    const { state, cache } = scene()
    expect(await cache.find('key_1')).toMatchObject({ keyId: 'key_1', scope: 'admin' })
    expect(await cache.find('key_1')).not.toBeNull()
    expect(state.asked).toBe(1)
    state.alive = false
    cache.forget('key_1')
    expect(await cache.find('key_1')).toBeNull()
  })

  it('is not what somebody presents who sends the ID as a key', async () => {
    const { cache } = scene()
    await cache.find('key_1')
    for (const key of ['key_1', 'id key_1']) expect(await cache.verify(key, HOME)).toBeNull()
  })

  it('counts as one that works only after it worked', async () => {
    const { state, cache } = scene()
    expect(cache.hasWorked(KEY)).toBe(false)
    await cache.verify(KEY, HOME)
    await cache.verify('cfd_no', HOME)
    expect([cache.hasWorked(KEY), cache.hasWorked('cfd_no')]).toEqual([true, false])
    state.alive = false
    cache.forget('key_1')
    expect(cache.hasWorked(KEY)).toBe(false)
  })
})

describe('the brake on guessed keys', () => {
  it('lets twenty guesses of an address through, then one a second', () => {
    let nowMs = 0
    const brake = createGuessBrake(() => nowMs)
    const waits = Array.from({ length: 21 }, () => brake.take('192.0.2.1'))
    expect(waits).toEqual([...Array.from({ length: 20 }, () => 0), 1000])
    expect(brake.take('192.0.2.2')).toBe(0)
    nowMs = 1000
    expect([brake.take('192.0.2.1'), brake.take('192.0.2.1')]).toEqual([0, 1000])
    nowMs = 60_000
    expect(Array.from({ length: 20 }, () => brake.take('192.0.2.1'))).not.toContain(1000)
  })

  it('does not count a guess that was given back', () => {
    const brake = createGuessBrake(() => 0)
    for (let n = 0; n < 100; n += 1) {
      expect(brake.take('192.0.2.1')).toBe(0)
      brake.giveBack('192.0.2.1')
    }
  })
})

it.each([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:DB8:1:2::9', '2001:db8:1:2::/64'],
  ['2001:db8::9', '2001:db8:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
])('the address %s counts as %s', (address, group) => {
  expect(addressGroup(address)).toBe(group)
})
