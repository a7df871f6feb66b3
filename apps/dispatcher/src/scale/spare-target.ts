/**
 * The number of spare pods that a pool should have.
 *
 * A warm pool's `replicas` counts only unclaimed pods, and its controller replaces a claimed pod by itself
 * within the refill time. So the pool needs as many spares as sessions arrive during one refill, and not as
 * many as sessions run. `pending` of the work queue says nothing about arrivals, so it is not an input.
 */
import type { SpareSettings } from './spare-settings.ts'

export interface SpareInputs {
  /** Work items that wait to be claimed, from the queue's statistics. 0 if unknown. */
  depth: number
  /** Sessions that arrive per second and may need a new sandbox (arrivals.ts). */
  arrivalsPerSecond: number
  /** Seconds until a claimed pod is replaced (refill-time.ts). */
  refillSeconds: number
}

export interface SpareState {
  /** Spare pods that the pool should have now. */
  spare: number
  /** No pod is given up before this time (milliseconds of the caller's clock). */
  keepUntilMs: number
}

/**
 * Returns clamp(min, depth + ceil(arriving × safety + √arriving × burst_margin), max), where `arriving` is
 * the number of sessions that arrive during one refill. If sessions arrive independently, the standard
 * deviation of `arriving` is its square root. So one factor alone would be too little for a small pool or too
 * much for a large one.
 */
export function wantedSpare(inputs: SpareInputs, settings: SpareSettings): number {
  const { depth, arrivalsPerSecond, refillSeconds } = inputs
  const arriving = arrivalsPerSecond * refillSeconds
  const ahead = Math.ceil(arriving * settings.safety + Math.sqrt(arriving) * settings.burst_margin)
  return Math.min(settings.max, Math.max(settings.min, depth + ahead))
}

/**
 * Goes up to the wanted number at once. Goes down if the current number was last wanted `hold_seconds` ago,
 * and then by `fall_share` of it (at least by one) every `fall_every_seconds`.
 */
export function nextSpare(
  { spare, keepUntilMs }: SpareState,
  wanted: number,
  nowMs: number,
  settings: SpareSettings,
): SpareState {
  if (wanted >= spare) return { spare: wanted, keepUntilMs: nowMs + settings.hold_seconds * 1000 }
  if (nowMs < keepUntilMs) return { spare, keepUntilMs }
  const step = Math.max(1, Math.floor(spare * settings.fall_share))
  return {
    spare: Math.max(wanted, spare - step),
    keepUntilMs: nowMs + settings.fall_every_seconds * 1000,
  }
}
