/** A worker's heartbeat keeps its slots in the window and tells it which executions it lost. */
import type { Redis } from 'ioredis'
import { keysOf } from './cell.ts'
import type { Lane } from './keys.ts'
import { ANY_KIND, type WorkerKind } from './worker-kind.ts'
import { list, numberOrNull, runCoded, SCRIPTS, text, type Reply } from './scripts.ts'

export interface Pulse {
  workerId: string
  /** Slots that it can fill, in total and per lane. 0 while draining. */
  fillable: number
  interactive: number
  routine: number
  running: readonly { name: string }[]
  lockMs: number
  /** Slots that it has. */
  slots: number
  kind: WorkerKind
}

export interface BeatAnswer {
  /** `<id> <fence>` of executions that this worker no longer owns. */
  lost: Set<string>
  cancelled: Set<string>
  /** Milliseconds until something delayed or parked is due. Null when nothing is. */
  dueMs: number | null
  /** Executions assigned to this worker. */
  assigned: Record<Lane, number>
}

export async function beat(redis: Redis, pulse: Pulse): Promise<BeatAnswer> {
  const { workerId, fillable, slots, interactive, routine, running, lockMs, kind } = pulse
  const { rest } = await runCoded(redis, SCRIPTS.heartbeat, keysOf(redis).window, [
    workerId,
    fillable,
    interactive,
    routine,
    running.length,
    lockMs,
    slots,
    kind.name,
    kind.offers,
    ...running.flatMap(({ name }) => name.split(' ')),
  ])
  const dueMs = numberOrNull(rest[2])
  return {
    lost: names(rest[0]),
    cancelled: names(rest[1]),
    dueMs: dueMs === null || dueMs < 0 ? null : dueMs,
    assigned: { interactive: numberOrNull(rest[3]) ?? 0, routine: numberOrNull(rest[4]) ?? 0 },
  }
}

/** Removes the worker from the window. */
export async function leave(redis: Redis, workerId: string, lockMs: number): Promise<void> {
  await runCoded(redis, SCRIPTS.heartbeat, keysOf(redis).window, [
    workerId,
    -1,
    0,
    0,
    0,
    lockMs,
    0,
    ANY_KIND.name,
    ANY_KIND.offers,
  ])
}

const names = (reply: Reply | undefined): Set<string> => new Set(list(reply).map(text))
