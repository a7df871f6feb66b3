import { describe, expect, it, vi } from 'vitest'
import { createEventBuffer, createStreamBound } from './event-buffer.ts'

const output = (text: string, stream: 'stdout' | 'stderr' = 'stdout') =>
  ({ type: 'output', at_ms: 1, stream, text }) as const

describe('the event buffer', () => {
  it('joins neighbouring output of one stream and keeps the order of all events', async () => {
    const batches: unknown[][] = []
    const buffer = createEventBuffer(
      async (events) => void batches.push(events.map((e) => JSON.parse(e) as unknown)),
      vi.fn(),
    )
    for (const event of [output('a'), output('b'), output('c', 'stderr'), output('d')]) buffer.emit(event)
    buffer.emit({ type: 'notice', at_ms: 2, message: 'n' })
    buffer.emit(output('e'))
    await buffer.flush()
    expect(batches).toEqual([
      [
        output('ab'),
        output('c', 'stderr'),
        output('d'),
        { type: 'notice', at_ms: 2, message: 'n' },
        output('e'),
      ],
    ])
  })

  it('appends by itself after a moment, one numbered call at a time', async () => {
    const calls: number[] = []
    let active = 0
    const buffer = createEventBuffer(async (_events, call) => {
      expect((active += 1)).toBe(1)
      await new Promise((resolve) => setImmediate(resolve))
      active -= 1
      calls.push(call)
    }, vi.fn())
    buffer.emit(output('a'))
    await vi.waitFor(() => expect(calls).toEqual([1]), 15_000)
    for (let n = 0; n < 3; n += 1) {
      buffer.emit(output('b'))
      void buffer.flush()
    }
    await buffer.flush()
    expect(calls.length).toBeGreaterThanOrEqual(2)
    expect(calls).toEqual(calls.map((_, index) => index + 1))
  })

  it('appends a large output in parts, and encodes each part when its turn comes', async () => {
    const parts: string[][] = []
    const buffer = createEventBuffer(async (events) => void parts.push(events), vi.fn())
    const flood = Array.from({ length: 3 << 20 }, (_, n) => String.fromCharCode(97 + (n % 26))).join('')
    for (let at = 0; at < flood.length; at += 65_536) buffer.emit(output(flood.slice(at, at + 65_536)))
    await buffer.flush()
    expect(Math.max(...parts.map((part) => part.join('').length))).toBeLessThan(600 * 1024)
    expect(
      parts.flatMap((part) => part.map((event) => (JSON.parse(event) as { text: string }).text)).join(''),
    ).toBe(flood)
  })

  it('holds a program back that prints faster than Redis takes it, and drops nothing', async () => {
    let appended = 0
    const buffer = createEventBuffer(async (events) => {
      await new Promise((resolve) => setImmediate(resolve))
      for (const event of events) appended += (JSON.parse(event) as { text: string }).text.length
    }, vi.fn())
    let emitted = 0
    for (let n = 0; n < 16; n += 1) {
      buffer.emit(output('x'.repeat(512 * 1024)))
      await buffer.room()
      emitted += 512 * 1024
      expect(emitted - appended).toBeLessThanOrEqual(1024 * 1024)
    }
    await buffer.flush()
    expect(appended).toBe(8 * 1024 * 1024)
  })

  it('holds a program back only for a moment while Redis is away, and again once it is back', async () => {
    vi.useFakeTimers()
    try {
      const wait = Promise.withResolvers<void>()
      const buffer = createEventBuffer(() => wait.promise, vi.fn())
      const many = output('x'.repeat(1536 * 1024))
      buffer.emit(many)
      const held = buffer.room()
      expect(held).toBeInstanceOf(Promise)
      await vi.advanceTimersByTimeAsync(2000)
      await held
      buffer.emit(many)
      expect(buffer.room()).toBeUndefined()
      wait.resolve()
      await buffer.flush()
      buffer.emit(many)
      expect(buffer.room()).toBeInstanceOf(Promise)
      await buffer.flush()
    } finally {
      vi.useRealTimers()
    }
  })

  it('drops output beyond its bound while Redis is away, and reports that with one notice', async () => {
    const wait = Promise.withResolvers<void>()
    const all: { type: string; text?: string }[] = []
    const buffer = createEventBuffer(async (events) => {
      await wait.promise
      all.push(...events.map((event) => JSON.parse(event) as (typeof all)[number]))
    }, vi.fn())
    buffer.emit(output('first'))
    const stuck = buffer.flush()
    await Promise.resolve()
    for (let n = 0; n < 12; n += 1) buffer.emit(output('x'.repeat(1024 * 1024)))
    wait.resolve()
    await stuck
    await buffer.flush()
    const bytes = all.reduce((sum, { text = '' }) => sum + text.length, 0)
    expect(bytes).toBe(5 + 4 * 1024 * 1024)
    expect(all.filter(({ type }) => type === 'notice')).toHaveLength(1)
  })

  it('continues after an append that failed', async () => {
    const onError = vi.fn()
    const append = vi.fn<() => Promise<void>>().mockRejectedValueOnce(new Error('away')).mockResolvedValue()
    const buffer = createEventBuffer(append, onError)
    buffer.emit(output('a'))
    await buffer.flush()
    buffer.emit(output('b'))
    await buffer.flush()
    expect(append).toHaveBeenCalledTimes(2)
    expect(onError).toHaveBeenCalledTimes(1)
  })
})

const MiB = 1024 * 1024

describe('the bound of a live stream', () => {
  it('keeps 2,000 small entries, including those that scripts appended', () => {
    const keepWith = createStreamBound()
    for (let n = 0; n < 5000; n += 1) expect(keepWith(['x'.repeat(1000)])).toBe(2000)
  })

  it('keeps the newest entries that fit into 8 MiB', () => {
    const keepWith = createStreamBound()
    const large = 'x'.repeat(MiB)
    for (let n = 0; n < 8; n += 1) expect(keepWith([large])).toBe(2000)
    expect(keepWith([large])).toBe(8)
    expect(keepWith([large, 'x'])).toBe(8)
    expect(keepWith(['x'])).toBe(9)
  })

  it('counts bytes, not characters', () => {
    const keepWith = createStreamBound()
    expect(keepWith(['€'.repeat(4 * MiB), '€'])).toBe(1)
  })

  it('keeps more entries again when large ones were trimmed', () => {
    const keepWith = createStreamBound()
    for (let n = 0; n < 9; n += 1) keepWith(['x'.repeat(MiB)])
    const small = Array.from({ length: 2000 }, () => 'x')
    expect(keepWith(small)).toBe(2000)
  })
})
