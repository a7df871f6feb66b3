/** Audit rows of attempts that ended at a chosen moment. */
import type { AttemptRecord, Ending } from '@cofferdam/contract'
import type { SeriesFigures } from '../src/index.ts'
import { sampleAttempt } from './sample-attempt.ts'

export const MINUTE = 60_000
export const HOUR = 60 * MINUTE
/** The start of the hour six hours ago. */
export const base = Math.floor(Date.now() / HOUR) * HOUR - 6 * HOUR
export const iso = (ms: number): string => new Date(ms).toISOString()

export interface Ended {
  /** Milliseconds after `base`. */
  endMs: number
  waitMs: number
  runMs: number
  tenant?: string
  ending?: Ending
  backend?: string | null
  cost?: number | null
}

/** An attempt that ended at `base + endMs`. */
export function ended({
  endMs,
  waitMs,
  runMs,
  tenant = 'acme',
  ending = 'ok',
  backend = 'docker',
  cost = 1,
}: Ended): AttemptRecord {
  const startedMs = base + endMs - runMs
  const record = sampleAttempt({ atMs: startedMs - waitMs, tenant, ending, chargedAtMs: startedMs })
  const times = { started_at: iso(startedMs), finished_at: iso(base + endMs) }
  Object.assign(record.audit, { ...times, queue_ms: waitMs, duration_ms: runMs, backend, cost })
  return record
}

export const figures = (map: Map<number, SeriesFigures>) => Object.fromEntries(map)
