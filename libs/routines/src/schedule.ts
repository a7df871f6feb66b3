/**
 * When a routine is due. Cron is read by the parser that BullMQ itself has, in the routine's own time zone:
 *   a time that a change of clocks leaves out is made up for by as much later (02:30 is then 03:30),
 *   a time that comes twice counts once, and `0 * * * *` is due in every hour that really passes.
 * Intervals count from when the routine was made, so that a lost Redis changes no phase.
 */
import { CofferdamError, type Schedule } from '@cofferdam/contract'
import { CronExpressionParser } from 'cron-parser'

/** A schedule as BullMQ keeps it. */
export interface Pattern {
  pattern: string
  tz?: string
}

const EVERY = /^every (\d+) from (\d+)$/
const ALIAS = /^@(yearly|annually|monthly|weekly|daily|hourly)$/
/** Five fields, or six with seconds in front. `H`, a random field of the parser's own, would differ at every reading. */
const FIELDS = /^[^\sH]+(\s+[^\sH]+){4,5}$/

/** The form in which BullMQ carries a schedule. */
export function patternOf(schedule: Schedule, anchorMs: number): Pattern {
  return 'cron' in schedule
    ? { pattern: schedule.cron, tz: schedule.time_zone }
    : { pattern: `every ${schedule.every_ms} from ${anchorMs}` }
}

/** The first moment after `afterMs`; null when there is none. */
export function nextOf({ pattern, tz }: Pattern, afterMs: number): number | null {
  const [, every, anchor] = EVERY.exec(pattern) ?? []
  if (every !== undefined) {
    const [step, from] = [Number(every), Number(anchor)]
    return from + Math.max(1, Math.floor((afterMs - from) / step) + 1) * step
  }
  try {
    return CronExpressionParser.parse(pattern, {
      currentDate: new Date(afterMs),
      ...(tz === undefined ? {} : { tz }),
    })
      .next()
      .getTime()
  } catch {
    return null
  }
}

/** The first moment of a schedule after `afterMs`; null when there is none. */
export const nextRunMs = (schedule: Schedule, anchorMs: number, afterMs: number): number | null =>
  nextOf(patternOf(schedule, anchorMs), afterMs)

/** Throws `invalid_request` for a cron text that is none, or that never comes. */
export function checkSchedule(schedule: Schedule | null | undefined): void {
  if (schedule == null || !('cron' in schedule)) return
  const { cron, time_zone: tz } = schedule
  if (!ALIAS.test(cron) && !FIELDS.test(cron.trim()))
    throw refused('expected five fields, six with seconds in front, or @daily and its like')
  try {
    CronExpressionParser.parse(cron, { tz }).next()
  } catch (error) {
    throw refused(error instanceof Error ? error.message : 'it cannot be read')
  }
}

const refused = (why: string): CofferdamError =>
  new CofferdamError('invalid_request', `schedule.cron: ${why}.`)
