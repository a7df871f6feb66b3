/** Several files as one blob: u32 length of a JSON index, the index, then the bytes of each in its order. */
import { BOUNDS, CofferdamError, pathSchema, type ProgramFile } from '@cofferdam/contract'
import { z } from 'zod'

const indexSchema = z
  .array(z.strictObject({ path: pathSchema, size: z.int().min(0).max(BOUNDS.checkpointBytes) }))
  .max(BOUNDS.checkpointFiles)

/** The parts of the blob, in order. */
export function packFiles(files: readonly ProgramFile[]): Uint8Array[] {
  const index = Buffer.from(JSON.stringify(files.map(({ path, bytes }) => ({ path, size: bytes.length }))))
  const head = Buffer.alloc(4)
  head.writeUInt32LE(index.length)
  return [head, index, ...files.map(({ bytes }) => bytes)]
}

/** Throws `internal` for what `packFiles` did not make. */
export function unpackFiles(blob: Uint8Array): ProgramFile[] {
  const bytes = Buffer.from(blob.buffer, blob.byteOffset, blob.byteLength)
  const start = 4 + (bytes.length < 4 ? 0 : bytes.readUInt32LE())
  if (bytes.length < start) throw damaged()
  const index = indexSchema.safeParse(JSON.parse(bytes.toString('utf8', 4, start)))
  if (!index.success) throw damaged()
  let at = start
  return index.data.map(({ path, size }) => {
    at += size
    if (at > bytes.length) throw damaged()
    return { path, bytes: bytes.subarray(at - size, at) }
  })
}

const damaged = (): CofferdamError => new CofferdamError('internal', 'A checkpoint is not what was written.')
