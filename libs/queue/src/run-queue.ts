/**
 * BullMQ as transport: one short run queue per lane. A job carries an execution id and nothing else; it is removed
 * when it finishes, so the existence of its key tells the sweeper whether BullMQ still knows it.
 */
import type { ExecutionId } from '@cofferdam/contract'
import { Queue } from 'bullmq'
import type { Redis } from 'ioredis'
import { jobIdOf, TAG, type Lane } from './keys.ts'
import { list, numberOrNull, text, type Reply } from './scripts.ts'

/** One execution that the scheduler let through. */
export interface Release {
  id: ExecutionId
  lane: Lane
  /** Counts the releases of this execution: its n-th job. */
  release: number
  /** BullMQ priority, 1 first. */
  priority: number
}

export interface RunQueue {
  /** Adds the jobs without waiting for them: a lost add is repaired by the sweep. */
  add(releases: readonly Release[]): void
  /** Resolves when every add has been answered, and lets the queues go. */
  close(): Promise<void>
}

/** Reads the releases of a script's reply. */
export function releasesOf(reply: Reply | undefined): Release[] {
  return list(reply).map((entry) => {
    const [id, lane, release, priority] = list(entry)
    return {
      id: text(id) as ExecutionId,
      lane: text(lane) as Lane,
      release: numberOrNull(release) ?? 1,
      priority: numberOrNull(priority) ?? 1,
    }
  })
}

/** `onError` is told about failed adds; they need no action. */
export function createRunQueue(redis: Redis, onError: (error: unknown) => void): RunQueue {
  const queues = new Map<Lane, Queue>()
  const pending = new Set<Promise<unknown>>()

  const queueOf = (lane: Lane): Queue => {
    const known = queues.get(lane)
    if (known !== undefined) return known
    const queue = new Queue(lane, {
      connection: redis,
      prefix: TAG,
      skipVersionCheck: true,
      // Nobody reads BullMQ's event stream; 100 entries is its smallest trimming unit.
      streams: { events: { maxLen: 100 } },
    })
    queue.on('error', onError)
    queues.set(lane, queue)
    return queue
  }

  return {
    add(releases) {
      for (const { id, lane, release, priority } of releases) {
        const adding = queueOf(lane)
          .add('x', { id }, { jobId: jobIdOf(id, release), priority, attempts: 1 })
          .catch(onError)
          .finally(() => pending.delete(adding))
        pending.add(adding)
      }
    },
    async close() {
      await Promise.all(pending)
      await Promise.all([...queues.values()].map((queue) => queue.close()))
      queues.clear()
    },
  }
}
