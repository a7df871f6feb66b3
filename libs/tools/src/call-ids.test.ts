import { describe, expect, it } from 'vitest'
import { idempotencyKey, isUnique, sessionKey, toolCallName } from './call-ids.ts'

describe('isUnique', () => {
  it.each([
    ['call_9rT4kQ2mZx', true],
    ['toolu_01A09q90qw90lq917835lq9', true],
    ['chatcmpl-tool-0f8fad5b-d9cb-469f-a165-70867728950e', true],
    ['functions.run_code:0', false],
    ['functions.run_code:12345678', true],
    ['call_1', false],
    ['run_code', false],
    ['', false],
  ])('%s: %s', (id, unique) => {
    expect(isUnique(id)).toBe(unique)
  })
})

describe('idempotencyKey', () => {
  const id = 'call_9rT4kQ2mZx'

  it('is the same for the same call, and another one for another program', async () => {
    const key = await idempotencyKey(id, { source: 'a' })
    expect(await idempotencyKey(id, { source: 'a' })).toBe(key)
    expect(await idempotencyKey(id, { source: 'b' })).not.toBe(key)
    expect(key).toMatch(/^tool-[0-9a-f]{32}$/)
  })

  it('does not exist for IDs that two conversations may share', async () => {
    expect(await idempotencyKey('call_1', {})).toBeUndefined()
    expect(await idempotencyKey(undefined, {})).toBeUndefined()
  })
})

describe('sessionKey', () => {
  it('keeps names of the API and makes one of everything else, without collisions', async () => {
    expect(await sessionKey('thread-7')).toBe('thread-7')
    const keys = await Promise.all(['a/b', 'a:b', 'run:a', 'ä', 'x'.repeat(129), ' '].map(sessionKey))
    expect(new Set(keys).size).toBe(6)
    for (const key of keys) expect(key).toMatch(/^conversation-[0-9a-f]{32}$/)
    expect(await sessionKey('')).toBeUndefined()
  })
})

describe('toolCallName', () => {
  it.each([
    ['functions.run_code:0', 'functions.run_code_0'],
    ['__x y', 'x_y'],
    ['call|'.repeat(60), 'call_'.repeat(26).slice(0, 128)],
    ['äöü', undefined],
    [undefined, undefined],
  ])('%s becomes %s', (id, name) => {
    expect(toolCallName(id)).toBe(name)
  })
})
