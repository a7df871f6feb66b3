/** The mark that `begin` writes to Redis. After a crash, the next owner reads it. */
import type { Isolation, SandboxRef, WorkerId } from '@cofferdam/contract'

/** Where and how an attempt runs. */
export interface Place {
  backend: string
  isolation: string
  /** When admission charged the attempt, for its audit row after a crash; null when not charged. */
  chargedAtMs?: number | null
  /** True when it runs in a sandbox of its own although its request names a session. */
  ownSandbox?: boolean
}

/** What `begin` recorded, for the next owner after a crash. */
export interface Interrupted {
  attempt: number
  worker: WorkerId
  ref: SandboxRef | null
  backend: string
  isolation: Isolation
  chargedAtMs: number | null
  /** When that owner took it (Redis' clock). */
  startedAtMs: number
  /** True when its owner recorded that the sandbox received the program. False proves nothing. */
  handedOver: boolean
  /** As in `Place`. */
  ownSandbox?: boolean
}

/** Writes the mark, as JSON. */
export function markOf(
  { attempt, fence, takenAtMs: startedAtMs }: { attempt: number; fence: number; takenAtMs: number },
  worker: WorkerId,
  ref: SandboxRef,
  { backend, isolation, chargedAtMs = null, ownSandbox = false }: Place,
): string {
  const own = ownSandbox ? { ownSandbox } : {}
  return JSON.stringify({ attempt, fence, worker, ref, backend, isolation, chargedAtMs, startedAtMs, ...own })
}

/** Reads the mark from the reply of a take (lua/include/own.lua); null when nothing was begun. */
export function interruptedOf(told: string): Interrupted | null {
  const [mark = '', handover = ''] = told.split('\n')
  if (mark === '') return null
  const { fence, ...begun } = JSON.parse(mark) as Omit<Interrupted, 'handedOver'> & { fence: number }
  return { ...begun, handedOver: handover === String(fence) }
}
