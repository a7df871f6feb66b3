/** When a routine runs, in words. */
import type { Routine } from '@cofferdam/client'
import { duration } from '../../words/figures.ts'

/** Forms of cron that have short words. Others are shown as they are written. */
function cronWords(cron: string): string {
  const fields = cron.trim().split(/\s+/)
  const [minute = '', hour = '', ...rest] = fields
  if (fields.length !== 5 || !rest.every((field) => field === '*')) return cron
  const isMinute = /^\d{1,2}$/.test(minute)
  if (isMinute && /^\d{1,2}$/.test(hour))
    return `every day at ${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`
  if (hour !== '*') return cron
  if (isMinute) return `every hour at minute ${Number(minute)}`
  if (minute === '*') return 'every minute'
  const [, step] = /^\*\/(\d{1,2})$/.exec(minute) ?? []
  return step === undefined ? cron : `every ${Number(step)} minutes`
}

/** Such as `every day at 02:30, Europe/Berlin`. */
export function scheduleWords(schedule: Routine['schedule']): string {
  if (schedule === null) return 'on demand'
  if ('every_ms' in schedule) return `every ${duration(schedule.every_ms).replace(/ 0?0 [hms]$/, '')}`
  return `${cronWords(schedule.cron)}, ${schedule.time_zone}`
}
