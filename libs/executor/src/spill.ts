/**
 * Writes one redacted stream to the blob store as it comes. Bytes are copied into buffers (stages), which are
 * written one after another. If the caller awaits `write`, two stages suffice: one fills while the other is
 * written. Otherwise at most BOUNDS.fullOutputBytes are buffered. If the store fails, only the full copy is
 * lost.
 */
import { BOUNDS, type BlobKey, type BlobSink, type BlobStore } from '@cofferdam/contract'
import { settlesWithin, type Clock } from './clock.ts'

/** A local disk commits 16 MiB in well under a second. An object store gets time for one retry. */
const COMMIT_TIMEOUT_MS = 15_000
/** Two frames of the guest agent, in one write to the store. */
const STAGE_BYTES = 128 * 1024

export interface Spill {
  /** Copies the bytes. Resolves when the caller may write more (backpressure). Never rejects. */
  write(bytes: Uint8Array): Promise<void>
  /** Makes the blob visible and returns its reference. Null when the store failed or took too long. */
  commit(): Promise<string | null>
  abort(): Promise<void>
}

/** Begins a blob. `onFailed` is called at most once. */
export function createSpill(
  blobs: BlobStore,
  key: BlobKey,
  clock: Clock,
  onFailed: (error: unknown) => void,
): Spill {
  let sink: BlobSink | null = null
  let failed = false
  let accepted = 0
  let stage: Buffer | null = null
  let filled = 0
  let onTheirWay = 0
  // Stages are reused, so a large output needs the memory of only two.
  const free: Buffer[] = []

  const fail = (error: unknown) => {
    if (!failed) onFailed(error)
    failed = true
  }
  let chain: Promise<void> = openSink().catch(fail)

  async function openSink(): Promise<void> {
    sink = await blobs.create(key)
  }

  function next(step: (sink: BlobSink) => Promise<void>): Promise<void> {
    chain = chain
      .then(async () => {
        if (!failed && sink !== null) await step(sink)
      })
      .catch(fail)
    return chain
  }

  function flush(): void {
    if (stage === null) return
    const full = stage
    const bytes = full.subarray(0, filled)
    stage = null
    filled = 0
    onTheirWay += 1
    void next((opened) => opened.write(bytes)).then(() => {
      onTheirWay -= 1
      if (free.length === 0) free.push(full)
    })
  }

  async function abort(): Promise<void> {
    failed = true
    chain = chain.then(() => sink?.abort()).catch(() => undefined)
    await settlesWithin(clock, COMMIT_TIMEOUT_MS, chain)
  }

  return {
    write(bytes) {
      const kept = bytes.subarray(0, BOUNDS.fullOutputBytes - accepted)
      if (kept.length === 0 || failed) return Promise.resolve()
      accepted += kept.length
      for (let at = 0; at < kept.length;) {
        stage ??= free.pop() ?? Buffer.allocUnsafeSlow(STAGE_BYTES)
        const part = kept.subarray(at, at + STAGE_BYTES - filled)
        stage.set(part, filled)
        filled += part.length
        at += part.length
        if (filled === STAGE_BYTES) flush()
      }
      return onTheirWay > 1 ? chain : Promise.resolve()
    },
    async commit() {
      flush()
      let ref: string | null = null
      const committed = next(async (opened) => {
        ref = await opened.commit()
      })
      if (!(await settlesWithin(clock, COMMIT_TIMEOUT_MS, committed)))
        fail(new Error(`no commit within ${COMMIT_TIMEOUT_MS} ms`))
      if (failed) await abort()
      return failed ? null : ref
    },
    abort,
  }
}
