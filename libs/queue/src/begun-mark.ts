/** The mark that `begin` writes to Redis, so that the next owner can read it after a crash. */
import type { Isolation, SandboxRef, WorkerId } from '@cofferdam/contract'

/** Where and how an attempt runs. */
export interface Place {
  backend: string
  isolation: string
  /** When admission charged the attempt, for its audit row after a crash. Null when it was not charged. */
  chargedAtMs?: number | null
  /** True when it runs in a sandbox of its own although its request names a session. */
  ownSandbox?: boolean
  /** The session in whose sandbox it runs, `ses_…`. Lists of live executions can be filtered by it. */
  sessionId?: string
}

export interface Interrupted {
  attempt: number
  worker: WorkerId
  ref: SandboxRef | null
  backend: string
  isolation: Isolation
  chargedAtMs: number | null
  /** When the former owner took the execution (Redis's clock). */
  startedAtMs: number
  /** True when the former owner recorded that the sandbox received the program. False proves nothing. */
  handedOver: boolean
  /** As in `Place`. */
  ownSandbox?: boolean
}

export function markOf(
  { attempt, fence, takenAtMs: startedAtMs }: { attempt: number; fence: number; takenAtMs: number },
  worker: WorkerId,
  ref: SandboxRef,
  { backend, isolation, chargedAtMs = null, ownSandbox = false, sessionId }: Place,
): string {
  const more = { ...(ownSandbox && { ownSandbox }), ...(sessionId !== undefined && { sessionId }) }
  return JSON.stringify({
    attempt,
    fence,
    worker,
    ref,
    backend,
    isolation,
    chargedAtMs,
    startedAtMs,
    ...more,
  })
}

/** Reads the mark from the reply of a take (lua/include/own.lua). Returns null when nothing was begun. */
export function interruptedOf(told: string): Interrupted | null {
  const [mark = '', handover = ''] = told.split('\n')
  if (mark === '') return null
  const { fence, ...begun } = JSON.parse(mark) as Omit<Interrupted, 'handedOver'> & { fence: number }
  return { ...begun, handedOver: handover === String(fence) }
}
