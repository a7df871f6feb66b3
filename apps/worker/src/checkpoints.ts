/**
 * Where the files stand that an attempt leaves to the next: one blob per execution, and in Redis the name of the newest.
 * A blob that nobody names any more goes with the blobs of its day.
 */
import {
  CofferdamError,
  type BlobStore,
  type ExecutionId,
  type ProgramFile,
  type TenantPolicy,
} from '@cofferdam/contract'
import type { Checkpoint } from '@cofferdam/executor'
import { KEYS, type Taken } from '@cofferdam/queue'
import type { Redis } from 'ioredis'
import { packFiles, unpackFiles } from './pack-files.ts'

/** The longest life of an execution: delay, wait and run, a day each; and a day for its attempts. */
const KEPT_MS = 4 * 24 * 3_600_000

export interface Checkpoints {
  /** Undefined when the request keeps none. What cannot be read is left out: the program then begins afresh. */
  open(taken: Taken, tenant: Pick<TenantPolicy, 'encrypt_outputs'>): Promise<Checkpoint | undefined>
  /** After the last attempt. Never rejects. */
  forget(executionId: ExecutionId): Promise<void>
}

export function createCheckpoints(deps: {
  redis: Redis
  blobs: BlobStore
  onError(error: unknown): void
}): Checkpoints {
  const { redis, blobs } = deps
  const keyOf = (id: ExecutionId): string => KEYS.checkpoint + id

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
    if (taken.signal.aborted && taken.signal.reason?.stopCause === 'lock_lost') {
      // Its new owner keeps its own.
      await blobs.delete(ref)
      throw new CofferdamError('fenced')
    }
    const before = await redis.set(keyOf(executionId), ref, 'PX', KEPT_MS, 'GET')
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
