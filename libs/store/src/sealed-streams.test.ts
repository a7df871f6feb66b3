import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { createOutputKeys } from './output-keys.ts'
import { CHUNK_BYTES, HEADER_BYTES, STORED_CHUNK_BYTES } from './sealed-format.ts'
import { createSealedStreams } from './sealed-streams.ts'

const WHERE = { tenant: 'acme', location: 'paused/1' }
const keys = createOutputKeys([{ id: 'k1', key: Buffer.alloc(32, 7) }])
const streams = createSealedStreams(keys)

const through = async (
  bytes: Buffer,
  which: 'seal' | 'open',
  where = WHERE,
  step = 10_007,
): Promise<Buffer> => {
  const pieces = Array.from({ length: Math.ceil(bytes.length / step) }, (_, at) =>
    bytes.subarray(at * step, (at + 1) * step),
  )
  const stream = streams?.[which](where)
  if (stream === undefined) throw new Error('there is a key')
  const read = buffer(stream)
  Readable.from(pieces)
    .on('error', () => {})
    .pipe(stream)
  return await read
}

test.for([0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])(
  'decrypts %i bytes that it encrypted, however they are cut',
  async (size) => {
    const text = randomBytes(size)
    const sealed = await through(text, 'seal')
    if (size > 16) expect(sealed.includes(text.subarray(0, 16))).toBe(false)
    for (const step of [1013, STORED_CHUNK_BYTES, 1_000_000])
      expect((await through(sealed, 'open', WHERE, step)).equals(text)).toBe(true)
  },
)

test('refuses bytes that were altered, cut off, or are those of another session', async () => {
  const sealed = await through(randomBytes(2 * CHUNK_BYTES), 'seal')
  const altered = Buffer.from(sealed)
  altered[HEADER_BYTES + 5] = (altered[HEADER_BYTES + 5] ?? 0) ^ 1
  const damaged = { code: 'stored_data_damaged' }
  await expect(through(altered, 'open')).rejects.toMatchObject(damaged)
  await expect(through(sealed.subarray(0, HEADER_BYTES + STORED_CHUNK_BYTES), 'open')).rejects.toMatchObject(
    damaged,
  )
  await expect(through(sealed, 'open', { ...WHERE, location: 'paused/2' })).rejects.toMatchObject(damaged)
  await expect(through(sealed, 'open', { ...WHERE, tenant: 'other' })).rejects.toMatchObject(damaged)
})

test('exists only with a key', () => {
  expect(createSealedStreams(createOutputKeys([]))).toBe(null)
})
