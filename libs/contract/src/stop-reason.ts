/** Cancel, drain, deadlines and lost ownership all abort one AbortSignal. Its reason is one of these. */

export const STOP_CAUSES = [
  'cancelled',
  'soft_deadline',
  'hard_deadline',
  'cpu_time',
  'heartbeat',
  'drain',
  'lock_lost',
  'output_limit',
] as const
export type StopCause = (typeof STOP_CAUSES)[number]

export class StopReason extends Error {
  readonly stopCause: StopCause

  constructor(stopCause: StopCause, message: string = stopCause) {
    super(message)
    this.name = 'StopReason'
    this.stopCause = stopCause
  }
}

/** The cause of an aborted signal. `cancelled` when it was aborted without one of these. */
export function stopCauseOf(signal: AbortSignal): StopCause {
  return signal.reason instanceof StopReason ? signal.reason.stopCause : 'cancelled'
}

/** Makes the compiler check that a switch over a union is complete. */
export function assertNever(value: never): never {
  throw new Error(`unexpected value ${JSON.stringify(value)}`)
}
