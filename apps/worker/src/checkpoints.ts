/**
 * Keeps the files that an attempt leaves to the next one: one blob per execution, and in Redis the ref of the
 * newest. Only the execution's owner replaces that ref, so a worker that lost the execution cannot delete the
 * blob of the next owner. A blob without such a ref is deleted with the blobs of its day.
 */
import {
  BOUNDS,
  CofferdamError,
  isCofferdamError,
  pathSchema,
  type BlobStore,
  type ExecutionId,
  type ProgramFile,
  type TenantPolicy,
} from '@cofferdam/contract'
import type { Checkpoint } from '@cofferdam/executor'
import { keysOf, type Taken } from '@cofferdam/queue'
import type { Redis } from 'ioredis'
import { z } from 'zod'

/** Delay, wait and run take up to a day each, and all attempts together up to one more day. */
const KEPT_MS = 4 * 24 * 3_600_000

export interface Checkpoints {
  /**
   * Undefined when the request asks for no checkpoints. An unreadable checkpoint is ignored: the program
   * starts afresh.
   */
  open(taken: Taken, tenant: Pick<TenantPolicy, 'encrypt_outputs'>): Promise<Checkpoint | undefined>
  /** Call it after the last attempt. Never rejects. */
  forget(executionId: ExecutionId): Promise<void>
}

export function createCheckpoints(deps: {
  redis: Redis
  blobs: BlobStore
  onError(error: unknown): void
}): Checkpoints {
  const { redis, blobs } = deps
  const keyOf = (id: ExecutionId): string => keysOf(redis).checkpoint + id

  async function restore(taken: Taken): Promise<ProgramFile[]> {
    try {
      const ref = await redis.get(keyOf(taken.executionId))
      const stored = ref === null ? null : await blobs.read(ref)
      return stored === null ? [] : unpackFiles(stored.bytes)
    } catch (error) {
      deps.onError(error)
      const message = 'The checkpoint of the attempt before could not be read.'
      taken.emit({ type: 'notice', at_ms: Date.now(), message })
      return []
    }
  }

  async function save(taken: Taken, encrypt: boolean, files: readonly ProgramFile[]): Promise<void> {
    const { executionId, attempt, request } = taken
    const sink = await blobs.create({
      tenantId: request.tenant_id,
      executionId,
      attempt,
      name: 'checkpoint',
      encrypt,
    })
    let ref: string
    try {
      for (const part of packFiles(files)) await sink.write(part)
      ref = await sink.commit()
    } catch (error) {
      await sink.abort()
      throw error
    }
    let before: string | null
    try {
      // A worker that lost its lock may still have no connection to Redis, so do not ask Redis.
      if (taken.signal.aborted && taken.signal.reason?.stopCause === 'lock_lost')
        throw new CofferdamError('fenced')
      before = await taken.keep('checkpoint', executionId, ref, KEPT_MS)
    } catch (error) {
      // The new owner keeps its own blob, so this one is deleted. After another error Redis may have the ref,
      // so the blob stays.
      if (isCofferdamError(error) && error.code === 'fenced') await blobs.delete(ref)
      throw error
    }
    if (before !== null) await blobs.delete(before)
  }

  return {
    async open(taken, tenant) {
      const { checkpoint } = taken.request
      if (checkpoint === undefined) return undefined
      return {
        globs: checkpoint.globs,
        everyMs: checkpoint.every_ms ?? null,
        restore: taken.attempt > 1 ? await restore(taken) : [],
        save: (files) => save(taken, tenant.encrypt_outputs, files),
      }
    },
    async forget(executionId) {
      try {
        const ref = await redis.getdel(keyOf(executionId))
        if (ref !== null) await blobs.delete(ref)
      } catch (error) {
        deps.onError(error)
      }
    },
  }
}

const indexSchema = z
  .array(z.strictObject({ path: pathSchema, size: z.int().min(0).max(BOUNDS.checkpointBytes) }))
  .max(BOUNDS.checkpointFiles)

/** The parts of a blob with several files: u32 length of a JSON index, the index, each file's bytes. */
export function packFiles(files: readonly ProgramFile[]): Uint8Array[] {
  const index = Buffer.from(JSON.stringify(files.map(({ path, bytes }) => ({ path, size: bytes.length }))))
  const head = Buffer.alloc(4)
  head.writeUInt32LE(index.length)
  return [head, index, ...files.map(({ bytes }) => bytes)]
}

/** Throws `internal` for a blob that `packFiles` did not write. */
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
