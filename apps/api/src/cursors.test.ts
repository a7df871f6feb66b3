import { describe, expect, it } from 'vitest'
import { createCursors } from './cursors.ts'

const key = new Uint8Array(32).fill(7)
const cursors = createCursors(async () => key)
const feed = { list: 'feed', tenantId: 'acme' }
const position = '4711.01a1fa08-3356-71ed-a83c-d82154726441.1'

describe('a cursor', () => {
  it('opens to its position for the same list and tenant, in any process', async () => {
    const cursor = await cursors.seal(feed, position)
    expect(await createCursors(async () => key).open(feed, cursor)).toBe(position)
    expect(await cursors.seal(feed, position)).toBe(cursor)
  })

  it('reveals nothing about its position', async () => {
    const cursor = await cursors.seal(feed, position)
    const bytes = Buffer.from(cursor, 'base64url')
    expect(cursor).not.toMatch(/01a1fa08|4711/)
    expect(bytes.toString('latin1')).not.toMatch(/01a1fa08|4711/)
    expect(bytes.includes(Buffer.from('01a1fa08335671eda83cd82154726441', 'hex'))).toBe(false)
  })

  it('is refused for another list, for another tenant, without a tenant, or with a changed bit', async () => {
    const cursor = await cursors.seal(feed, position)
    const bytes = Buffer.from(cursor, 'base64url')
    bytes[bytes.length - 1]! ^= 1
    for (const [of, text] of [
      [{ ...feed, tenantId: 'globex' }, cursor],
      [{ ...feed, tenantId: null }, cursor],
      [{ ...feed, tenantId: 'everybody' }, await cursors.seal({ ...feed, tenantId: null }, position)],
      [{ ...feed, list: 'audit' }, cursor],
      [feed, bytes.toString('base64url')],
      [feed, Buffer.from(position).toString('base64url')],
      [feed, ''],
      [feed, 'x'],
    ] as const)
      await expect(cursors.open(of, text)).rejects.toMatchObject({ code: 'invalid_request' })
  })

  it('is null at the end of a list, and undefined at its beginning', async () => {
    expect(await cursors.seal(feed, null)).toBeNull()
    expect(await cursors.open(feed, undefined)).toBeUndefined()
  })

  it('is sealed as soon as the store is back', async () => {
    let isAway = true
    const late = createCursors(async () => {
      if (isAway) throw new Error('away')
      return key
    })
    await expect(late.seal(feed, position)).rejects.toThrow('away')
    isAway = false
    expect(await late.seal(feed, position)).toBe(await cursors.seal(feed, position))
  })
})
