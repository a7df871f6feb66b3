/** Repairs what crashes left (sweep.lua). One worker of the fleet does so per period. */
import type { ExecutionId, ExecutionRequest, SandboxRef, WorkerId } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { endUnstarted } from './end-unstarted.ts'
import { keysOf } from './cell.ts'
import { readable } from './request-blobs.ts'
import { list, runCoded, SCRIPTS, text, type Reply } from './scripts.ts'

/** A running execution that has lost its worker and its BullMQ job. */
export interface LostExecution {
  executionId: ExecutionId
  request: ExecutionRequest
  attempt: number
  enqueuedAtMs: number
  startedAtMs: number
  worker: WorkerId
  /** Null when the execution had not begun. */
  ref: SandboxRef | null
  fence: number
}

const OVERDUE = {
  ending: 'provisioning',
  reason: 'queue_wait_exceeded',
  message: 'It waited longer than an execution may wait before it starts.',
} as const

export async function sweep(
  redis: Redis,
  { sweepMs, lockMs }: { sweepMs: number; lockMs: number },
): Promise<LostExecution[]> {
  // Slightly less than the period, so that a worker's own lock does not block its next sweep.
  const { code, rest } = await runCoded(redis, SCRIPTS.sweep, keysOf(redis).window, [
    Math.ceil(sweepMs * 0.9),
    lockMs,
  ])
  if (code !== 'swept') return []
  const lost = await Promise.all(list(rest[0]).map((one) => lostOf(redis, list(one))))
  for (const id of list(rest[1])) await endUnstarted(redis, text(id) as ExecutionId, OVERDUE, false)
  return lost.filter((one) => one !== null)
}

async function lostOf(redis: Redis, [id, fields]: Reply[]): Promise<LostExecution | null> {
  const [stored, attempt, enqueued, taken, worker, began, fence] = list(fields)
  if (stored == null || taken == null || worker == null) return null
  const request = await readable(redis, text(stored))
  if (request === null) return null
  return {
    executionId: text(id) as ExecutionId,
    request,
    attempt: Number(attempt),
    enqueuedAtMs: Number(enqueued),
    startedAtMs: Number(taken),
    worker: text(worker) as WorkerId,
    ref: began == null ? null : (JSON.parse(text(began)) as { ref: SandboxRef | null }).ref,
    fence: Number(fence),
  }
}
