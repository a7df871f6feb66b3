/** Reads standard output in parts that end between characters. */
import type { ExecutionId, ExecutionResult } from '@cofferdam/contract'
import { tenantScope } from '../authenticate.ts'
import { requireEnded } from '../find-execution.ts'
import { blobSource, bytesSource } from '../send-bytes.ts'
import type { Exchange } from './exchange.ts'

const PART_BYTES = 32 * 1024

export interface OutputPart {
  text: string
  /** Byte offset of the rest. Absent at the end. */
  next?: number
}

/** Reads the full output. If it is not kept, reads the output in the result. */
export async function readOutputFrom(
  { context, request }: Exchange,
  id: ExecutionId,
  result: ExecutionResult,
  start: number,
): Promise<OutputPart> {
  const ended = await requireEnded(context, tenantScope(request), id)
  const ref = ended.last.stdout_ref
  const full = ref === null ? null : await blobSource(context.store.blobs, ref)
  const source = full ?? bytesSource(Buffer.from(result.stdout))
  if (start >= source.total) return { text: '' }
  const end = Math.min(source.total, start + PART_BYTES)
  const bytes = Buffer.from(await source.read({ start, end }))
  const whole = end === source.total ? bytes.length : wholeCharacters(bytes)
  const next = start + whole
  return { text: bytes.subarray(0, whole).toString(), ...(next < source.total ? { next } : {}) }
}

/** Length of `bytes` without a character of UTF-8 that is cut at the end. */
export function wholeCharacters(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return length > back ? bytes.length - back : bytes.length
  }
  return bytes.length
}
