/** Cancel, drain, deadlines and lost ownership are all one AbortSignal with one of these as its reason. */

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

/** The reason object of an abort. */
export class StopReason extends Error {
  readonly stopCause: StopCause

  constructor(stopCause: StopCause, message: string = stopCause) {
    super(message)
    this.name = 'StopReason'
    this.stopCause = stopCause
  }
}

/** The named cause of an aborted signal; `cancelled` when somebody aborted without one. */
export function stopCauseOf(signal: AbortSignal): StopCause {
  return signal.reason instanceof StopReason ? signal.reason.stopCause : 'cancelled'
}

/** Makes a switch over a union complete at compile time. */
export function assertNever(value: never): never {
  throw new Error(`unexpected value ${JSON.stringify(value)}`)
}
