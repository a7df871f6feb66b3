import type { BlobKey } from '@cofferdam/contract'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createMemoryBlobs } from '../test/memory-blobs.ts'
import { systemClock } from './clock.ts'
import { createOutputStream } from './output-stream.ts'
import { compileRules } from './redaction-rules.ts'
import { createSpill } from './spill.ts'

const key = { tenantId: 't', executionId: 'e', attempt: 1, name: 'stdout', encrypt: false }

function stream(
  limit: number,
  keep: 'head' | 'tail',
  { secrets = [], held }: { secrets?: string[]; held?: Promise<void> } = {},
) {
  const blobs = createMemoryBlobs()
  const pieces: string[] = []
  const output = createOutputStream({
    rules: compileRules(secrets, {}),
    limit,
    keep,
    maxRawBytes: 1 << 20,
    beginSpill: () => createSpill(blobs, key, systemClock, (error) => expect.fail(String(error))),
    onText: (text) => {
      pieces.push(text)
      return held
    },
  })
  return { output, blobs, pieces }
}

describe('output stream', () => {
  it('shows a short stream completely and stores nothing', async () => {
    const { output, blobs } = stream(100, 'head')
    await output.push(Buffer.from('hello\n'))
    output.close()
    expect(await output.finish(6)).toEqual({ text: 'hello\n', bytes: 6, truncated: false, ref: null })
    expect(blobs.committed.size).toBe(0)
  })

  it('also stores a short stream whose bytes are not text', async () => {
    const { output, blobs } = stream(100, 'head')
    const bytes = Buffer.from([0x41, 0xff, 0xc3, 0x28, 0x0a])
    await output.push(bytes)
    output.close()
    expect(await output.finish(5)).toEqual({
      text: 'A\ufffd\ufffd(\n',
      bytes: 5,
      truncated: false,
      ref: 't/e/1/stdout',
    })
    expect(blobs.committed.get('t/e/1/stdout')).toEqual(bytes)
  })

  it('keeps the head or the tail of a long stream and stores it in full', async () => {
    for (const [keep, text] of [
      ['head', '01234'],
      ['tail', 'fghij'],
    ] as const) {
      const { output, blobs } = stream(5, keep)
      for (const chunk of ['0123', '456789abc', 'd', 'efghij']) await output.push(Buffer.from(chunk))
      output.close()
      const view = await output.finish(20)
      expect(view).toEqual({ text, bytes: 20, truncated: true, ref: 't/e/1/stdout' })
      expect(blobs.committed.get('t/e/1/stdout')?.toString()).toBe('0123456789abcdefghij')
    }
  })

  it('stores every byte, and needs only two buffers if the backend waits', async () => {
    for (const waits of [true, false]) {
      const blobs = createMemoryBlobs()
      const used = new Set<ArrayBufferLike>()
      const watched = {
        ...blobs,
        async create(to: BlobKey) {
          const sink = await blobs.create(to)
          return { ...sink, write: (chunk: Uint8Array) => (used.add(chunk.buffer), sink.write(chunk)) }
        },
      }
      const output = createOutputStream({
        rules: compileRules([], {}),
        limit: 1000,
        keep: 'head',
        maxRawBytes: 16 << 20,
        beginSpill: () => createSpill(watched, key, systemClock, (error) => expect.fail(String(error))),
        onText: () => {},
      })
      const bytes = Buffer.alloc(8 << 20, '0123456789')
      for (let at = 0; at < bytes.length; at += 65_000) {
        const written = output.push(bytes.subarray(at, at + 65_000))
        if (waits) await written
      }
      output.close()
      const { ref } = await output.finish(bytes.length)
      expect(blobs.committed.get(ref ?? '')?.equals(bytes)).toBe(true)
      if (waits) expect(used.size).toBeLessThanOrEqual(2)
    }
  })

  it('takes no more while its live text waits', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const { output, pieces } = stream(100, 'head', { held: promise })
    let isTaken = false
    const taken = output.push(Buffer.from('hello\n')).then(() => (isTaken = true))
    await new Promise((done) => setImmediate(done))
    expect({ pieces, isTaken }).toEqual({ pieces: ['hello\n'], isTaken: false })
    resolve()
    await taken
  })

  it('counts raw bytes and truncates after redaction', async () => {
    const secret = 'a-secret-of-some-length-that-is-longer'
    const { output } = stream(30, 'head', { secrets: [secret] })
    await output.push(Buffer.from(`x ${secret} y`))
    output.close()
    expect(await output.finish(0)).toMatchObject({ text: 'x <redacted> y', bytes: 42, truncated: false })
  })

  it('is marked as truncated when the backend dropped bytes', async () => {
    const { output } = stream(100, 'head')
    await output.push(Buffer.from('abc'))
    output.close()
    expect(await output.finish(4)).toMatchObject({ text: 'abc', bytes: 4, truncated: true })
  })

  it('never shows more than its limit, also when invalid bytes get longer', async () => {
    const { output, blobs } = stream(100, 'head')
    await output.push(Buffer.alloc(100, 0xff))
    output.close()
    const view = await output.finish(100)
    expect(view).toMatchObject({ text: '\ufffd'.repeat(33), truncated: true })
    expect(blobs.committed.get('t/e/1/stdout')).toEqual(Buffer.alloc(100, 0xff))
  })

  it('ignores data after its end', async () => {
    const { output } = stream(100, 'head')
    output.close()
    await output.push(Buffer.from('late'))
    expect(await output.finish(0)).toMatchObject({ text: '', bytes: 0 })
  })

  it('never splits a character, for any text, limit and chunking', async () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'ü', '€', '😀', '\n'), maxLength: 60 })
    await fc.assert(
      fc.asyncProperty(
        text,
        fc.integer({ min: 0, max: 80 }),
        fc.constantFrom('head' as const, 'tail' as const),
        fc.integer({ min: 1, max: 9 }),
        async (whole, limit, keep, step) => {
          const { output, blobs, pieces } = stream(limit, keep)
          const bytes = Buffer.from(whole)
          for (let at = 0; at < bytes.length; at += step) await output.push(bytes.subarray(at, at + step))
          output.close()
          const view = await output.finish(bytes.length)
          expect(view.text).not.toContain('\ufffd')
          expect(Buffer.byteLength(view.text)).toBeLessThanOrEqual(limit)
          expect(Buffer.byteLength(view.text)).toBeGreaterThan(Math.min(limit, bytes.length) - 4)
          expect(keep === 'head' ? whole.startsWith(view.text) : whole.endsWith(view.text)).toBe(true)
          expect(view.truncated).toBe(bytes.length > limit)
          expect(pieces.join('')).toBe(whole)
          for (const piece of pieces) expect(piece).not.toContain('\ufffd')
          if (view.ref !== null) expect(blobs.committed.get(view.ref)?.toString()).toBe(whole)
          expect(blobs.open).toBe(0)
        },
      ),
      { numRuns: 300 },
    )
  })
})
