/**
 * When a routine is due. cron-parser reads the cron text in the routine's time zone. If a clock change skips
 * a time, the routine runs that much later (02:30 becomes 03:30). If a change repeats a time, the routine
 * runs at it once, but `0 * * * *` runs in both hours. Intervals count from the routine's creation, so they
 * do not shift when Redis is lost.
 */
import { CofferdamError, type Schedule } from '@cofferdam/contract'
import { CronExpressionParser } from 'cron-parser'

/** A schedule as BullMQ stores it. */
export interface Pattern {
  pattern: string
  tz?: string
}

const EVERY = /^every (\d+) from (\d+)$/
const ALIAS = /^@(yearly|annually|monthly|weekly|daily|hourly)$/
/** Five fields, or six with seconds in front. Excludes the parser's `H`, which is random at each parse. */
const FIELDS = /^[^\sH]+(\s+[^\sH]+){4,5}$/

/** Converts a schedule to BullMQ's form. */
export function patternOf(schedule: Schedule, anchorMs: number): Pattern {
  return 'cron' in schedule
    ? { pattern: schedule.cron, tz: schedule.time_zone }
    : { pattern: `every ${schedule.every_ms} from ${anchorMs}` }
}

/** The first time after `afterMs`. Null when there is none. */
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

/** The first time of a schedule after `afterMs`. Null when there is none. */
export const nextRunMs = (schedule: Schedule, anchorMs: number, afterMs: number): number | null =>
  nextOf(patternOf(schedule, anchorMs), afterMs)

/** Throws `invalid_request` for an invalid cron text, or one that is never due. */
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
