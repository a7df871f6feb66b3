/**
 * Stores the visible stdout and stderr. The result row contains up to 16 KiB of each. If a text is larger,
 * the blob store contains all of it and the row only its head. A read returns the whole text, or the head if
 * the blob is gone. Row and blob are encrypted if the record requires it.
 */
import { CofferdamError, type AttemptRecord, type BlobStore, type ExecutionResult } from '@cofferdam/contract'
import type { StorableAttempt } from './attempt-columns.ts'
import type { OutputKeys } from './output-keys.ts'
import { mustSeal, sealResult } from './sealed-result.ts'

/** The same bound as for sources in the queue (QUEUE_BOUNDS.inlineBytes). */
const INLINE_BYTES = 16 * 1024

type Stream = 'stdout' | 'stderr'

/** Moves large text to the blob store. Throws `store_unavailable` when that cannot be written. */
export async function moveLargeText(
  record: AttemptRecord,
  blobs: BlobStore,
  keys: OutputKeys,
): Promise<StorableAttempt> {
  // Text that must be encrypted is not stored at all without a key.
  const isLost = mustSeal(record) && keys.current === null
  const isMoved = (stream: Stream): boolean => !isLost && isLong(record.result[stream])
  const stdoutSpillRef = isMoved('stdout') ? await spill(record, 'stdout', blobs) : null
  const stderrSpillRef = isMoved('stderr') ? await spill(record, 'stderr', blobs) : null
  const cut =
    stdoutSpillRef === null && stderrSpillRef === null
      ? record
      : {
          ...record,
          result: {
            ...record.result,
            ...(stdoutSpillRef === null ? {} : { stdout: head(record.result.stdout) }),
            ...(stderrSpillRef === null ? {} : { stderr: head(record.result.stderr) }),
          },
        }
  const stored = mustSeal(record) ? sealResult(cut, keys) : { record: cut, sealed: null }
  return {
    record: stored.record,
    executionId: record.result.execution_id,
    resultJson: JSON.stringify(stored.record.result),
    artifactsJson: JSON.stringify(record.artifactRefs),
    stdoutSpillRef,
    stderrSpillRef,
    requestRef: record.requestRef ?? null,
    sealed: stored.sealed,
  }
}

/**
 * Deletes what `moveLargeText` wrote, if the row was not inserted: it existed already, or the write failed.
 */
export async function dropMovedText(attempt: StorableAttempt, blobs: BlobStore): Promise<void> {
  for (const ref of [attempt.stdoutSpillRef, attempt.stderrSpillRef])
    if (ref !== null) await blobs.delete(ref)
}

export async function putTextBack(
  result: ExecutionResult,
  refs: { stdout: string | null; stderr: string | null },
  blobs: BlobStore,
): Promise<ExecutionResult> {
  return {
    ...result,
    ...(await restored('stdout', refs.stdout, blobs)),
    ...(await restored('stderr', refs.stderr, blobs)),
  }
}

async function restored(
  stream: Stream,
  ref: string | null,
  blobs: BlobStore,
): Promise<Partial<ExecutionResult>> {
  if (ref === null) return {}
  const blob = await blobs.read(ref)
  if (blob === null) return markCut(stream)
  return { [stream]: Buffer.from(blob.bytes).toString('utf8') }
}

/** Marks text as cut, for lists and for text whose blob is gone. */
export const markCut = (stream: Stream): Partial<ExecutionResult> => ({ [`${stream}_truncated`]: true })

const isLong = (text: string): boolean =>
  text.length * 3 > INLINE_BYTES && Buffer.byteLength(text) > INLINE_BYTES

async function spill(record: AttemptRecord, stream: Stream, blobs: BlobStore): Promise<string> {
  try {
    const sink = await blobs.create({
      tenantId: record.audit.tenant_id,
      executionId: record.result.execution_id,
      attempt: record.result.attempt,
      name: `visible-${stream}`,
      encrypt: record.encrypt === true,
    })
    try {
      await sink.write(Buffer.from(record.result[stream]))
      return await sink.commit()
    } catch (error) {
      await sink.abort()
      throw error
    }
  } catch (error) {
    throw new CofferdamError(
      'store_unavailable',
      `The blob store did not take the ${stream} of an attempt.`,
      {
        cause: error,
      },
    )
  }
}

/** The first 16 KiB, cut between characters. */
function head(text: string): string {
  const bytes = Buffer.from(text)
  let end = Math.min(INLINE_BYTES, bytes.length)
  // Bytes of the form 10xxxxxx continue a character.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return bytes.subarray(0, end).toString('utf8')
}
