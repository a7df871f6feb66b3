/**
 * Runs a program under everything that may stop it. All timers count from the moment the program is handed
 * over.
 *
 *   running ──soft deadline──▶ soft-stopped (interrupted; may still end by itself)
 *   running | soft-stopped
 *     ──program ends──────────▶ ended, with its exit
 *     ──hard deadline─────────▶ halted at once
 *     ──CPU time used up──────▶ halted at once
 *     ──no heartbeat──────────▶ silent (interrupted) ──program ends──▶ ended
 *                                                    ──grace over───▶ halted
 *     ──output limit──────────▶ halted at once
 *     ──lock lost─────────────▶ halted at once
 *     ──cancelled | drain─────▶ stopping (interrupted) ──program ends──▶ ended
 *                                                     ──grace over───▶ halted
 *
 * Halted means that nobody waits for the program any more and that the caller destroys its sandbox. The first
 * cause that stopped the program remains the cause.
 */
import {
  DEFAULT_GRACE_MS,
  StopReason,
  stopCauseOf,
  type Exit,
  type StopCause,
  unlessAborted,
} from '@cofferdam/contract'
import type { Clock } from './clock.ts'

/**
 * Long enough for a program on a busy host to react, so that its session survives the cancel. Short enough
 * for a person who waits.
 */
export const CANCEL_GRACE_MS = 2000
export interface RunEnd {
  /** Null when the program was halted or its sandbox was lost. */
  exit: Exit | null
  /** What `run` threw; null when it resolved or was halted. */
  failure: unknown
  /** Why the program was stopped; null when it was not, or only softly by its deadline. */
  stop: StopCause | null
  softStopped: boolean
  /** It was stopped because it reported no progress. */
  silent: boolean
}

export interface DeadlineOptions {
  /** Hands the program over. The signal aborts when nobody waits any more. */
  run(signal: AbortSignal): Promise<Exit>
  interrupt(): Promise<void>
  softTimeoutMs: number
  hardTimeoutMs: number
  cancelGraceMs: number
  /** Aborts with a StopReason: cancelled, drain or lock_lost. */
  stopSignal: AbortSignal
  /** Aborts when the program wrote more than it may. */
  outputLimit: AbortSignal
  /** Aborts when the program used more CPU time than it may. */
  cpuLimit: AbortSignal
  /** Aborts when the program has reported no progress for too long. */
  heartbeatLost: AbortSignal
  clock: Clock
  onDeadline(which: 'soft' | 'hard'): void
}

/** Never rejects: what happened is in the result. */
export async function runUnderDeadlines(options: DeadlineOptions): Promise<RunEnd> {
  const { clock, stopSignal, outputLimit, cpuLimit, heartbeatLost } = options
  const halt = new AbortController()
  const timers: (() => void)[] = []
  let stop: StopCause | null = null
  let softStopped = false
  let silent = false

  const interrupt = () => void options.interrupt().catch(() => undefined)
  const haltFor = (cause: StopCause) => {
    stop ??= cause
    halt.abort(new StopReason(stop))
  }
  const softDeadline = () => {
    softStopped = true
    options.onDeadline('soft')
    interrupt()
  }
  const hardDeadline = () => {
    options.onDeadline('hard')
    haltFor('hard_deadline')
  }
  const onOutputLimit = () => haltFor('output_limit')
  const onCpuLimit = () => haltFor('cpu_time')
  const onSilence = () => {
    silent = true
    softDeadline()
    timers.push(clock.after(DEFAULT_GRACE_MS, () => haltFor('heartbeat')))
  }
  const onStop = () => {
    const cause = stopCauseOf(stopSignal)
    if (cause === 'lock_lost') return haltFor(cause)
    stop ??= cause
    interrupt()
    timers.push(clock.after(options.cancelGraceMs, () => haltFor(cause)))
  }

  if (stopSignal.aborted)
    return { exit: null, failure: null, stop: stopCauseOf(stopSignal), softStopped, silent }
  stopSignal.addEventListener('abort', onStop)
  outputLimit.addEventListener('abort', onOutputLimit)
  cpuLimit.addEventListener('abort', onCpuLimit)
  heartbeatLost.addEventListener('abort', onSilence)
  timers.push(
    clock.after(options.softTimeoutMs, softDeadline),
    clock.after(options.hardTimeoutMs, hardDeadline),
  )
  try {
    const exit = await unlessAborted(started(options, halt.signal), halt.signal)
    return { exit, failure: null, stop, softStopped, silent }
  } catch (error) {
    return { exit: null, failure: halt.signal.aborted ? null : error, stop, softStopped, silent }
  } finally {
    for (const clear of timers) clear()
    stopSignal.removeEventListener('abort', onStop)
    outputLimit.removeEventListener('abort', onOutputLimit)
    cpuLimit.removeEventListener('abort', onCpuLimit)
    heartbeatLost.removeEventListener('abort', onSilence)
  }
}

/** `async` turns a synchronous throw of the backend into a rejection. */
async function started(options: DeadlineOptions, signal: AbortSignal): Promise<Exit> {
  return await options.run(signal)
}
