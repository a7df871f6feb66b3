/** The mark that `begin` leaves in Redis, as its owner writes it and as whoever takes the execution after a crash reads it. */
import type { Isolation, SandboxRef, WorkerId } from '@cofferdam/contract'

/** Where and how an attempt runs. */
export interface Place {
  backend: string
  isolation: string
  /** When admission charged the attempt, so that its audit row can say so after a crash; null when not charged. */
  chargedAtMs?: number | null
}

/** What `begin` recorded for whoever takes the execution after a crash. */
export interface Interrupted {
  attempt: number
  worker: WorkerId
  ref: SandboxRef | null
  backend: string
  isolation: Isolation
  chargedAtMs: number | null
  /** When that owner took it (Redis' clock). */
  startedAtMs: number
}

/** The mark of a take, as JSON. */
export function markOf(
  { attempt, fence, takenAtMs: startedAtMs }: { attempt: number; fence: number; takenAtMs: number },
  worker: WorkerId,
  ref: SandboxRef,
  { backend, isolation, chargedAtMs = null }: Place,
): string {
  return JSON.stringify({ attempt, fence, worker, ref, backend, isolation, chargedAtMs, startedAtMs })
}

/** What a mark says; null when nothing was begun. */
export function interruptedOf(mark: string): Interrupted | null {
  if (mark === '') return null
  const { attempt, worker, ref, backend, isolation, chargedAtMs, startedAtMs } = JSON.parse(
    mark,
  ) as Interrupted
  return { attempt, worker, ref, backend, isolation, chargedAtMs, startedAtMs }
}
