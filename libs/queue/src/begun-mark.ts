/** The mark that `begin` leaves in Redis, as its owner writes it and as whoever takes the execution after a crash reads it. */
import type { Isolation, SandboxRef, WorkerId } from '@cofferdam/contract'

/** Where and how an attempt runs. */
export interface Place {
  backend: string
  isolation: string
  /** When admission charged the attempt, so that its audit row can say so after a crash; null when not charged. */
  chargedAtMs?: number | null
  /** True when it runs in a sandbox of its own although its request names a session. */
  ownSandbox?: boolean
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
  /**
   * Its owner had told that the program was handed over to the sandbox. Else it may have been, or not:
   * nothing shows it.
   */
  handedOver: boolean
  /** As in `Place`. */
  ownSandbox?: boolean
}

/** The mark of a take, as JSON. */
export function markOf(
  { attempt, fence, takenAtMs: startedAtMs }: { attempt: number; fence: number; takenAtMs: number },
  worker: WorkerId,
  ref: SandboxRef,
  { backend, isolation, chargedAtMs = null, ownSandbox = false }: Place,
): string {
  const own = ownSandbox ? { ownSandbox } : {}
  return JSON.stringify({ attempt, fence, worker, ref, backend, isolation, chargedAtMs, startedAtMs, ...own })
}

/** What a take tells of a mark (lua/include/own.lua); null when nothing was begun. */
export function interruptedOf(told: string): Interrupted | null {
  const [mark = '', handover = ''] = told.split('\n')
  if (mark === '') return null
  const { fence, ...begun } = JSON.parse(mark) as Omit<Interrupted, 'handedOver'> & { fence: number }
  return { ...begun, handedOver: handover === String(fence) }
}
