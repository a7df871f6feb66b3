import { describe, expect, it } from 'vitest'
import { checkSchedule, nextRunMs } from './schedule.ts'

/** The next `count` times. Each is computed from the previous one, as the scheduler does. */
function moments(cron: string, fromIso: string, count: number): string[] {
  const found: string[] = []
  for (let at = Date.parse(fromIso); found.length < count;) {
    const next = nextRunMs({ cron, time_zone: 'Europe/Berlin' }, 0, at)
    if (next === null) break
    found.push(new Date(next).toISOString())
    at = next
  }
  return found
}

describe('cron in Europe/Berlin', () => {
  it('keeps its time of day when clocks go forward, and runs a skipped time an hour later', () => {
    expect(moments('30 2 * * *', '2026-03-27T12:00:00Z', 4)).toEqual([
      '2026-03-28T01:30:00.000Z',
      // 02:30 does not exist on the 29th, so it is 03:30 summer time.
      '2026-03-29T01:30:00.000Z',
      '2026-03-30T00:30:00.000Z',
      '2026-03-31T00:30:00.000Z',
    ])
    expect(moments('0 9 * * *', '2026-03-28T00:00:00Z', 2)).toEqual([
      '2026-03-28T08:00:00.000Z',
      '2026-03-29T07:00:00.000Z',
    ])
  })

  it('is due once at a time that occurs twice when clocks go back', () => {
    expect(moments('30 2 * * *', '2026-10-24T12:00:00Z', 3)).toEqual([
      '2026-10-25T00:30:00.000Z',
      '2026-10-26T01:30:00.000Z',
      '2026-10-27T01:30:00.000Z',
    ])
  })

  it('is due in every hour that passes if it is hourly', () => {
    expect(moments('0 * * * *', '2026-10-24T23:30:00Z', 4)).toEqual([
      '2026-10-25T00:00:00.000Z',
      '2026-10-25T01:00:00.000Z',
      '2026-10-25T02:00:00.000Z',
      '2026-10-25T03:00:00.000Z',
    ])
    expect(moments('0 * * * *', '2026-03-29T00:00:00Z', 2)).toEqual([
      '2026-03-29T01:00:00.000Z',
      '2026-03-29T02:00:00.000Z',
    ])
  })
})

describe('an interval', () => {
  it('counts from the creation of the routine', () => {
    const every = { every_ms: 60_000 }
    expect(nextRunMs(every, 1_000_000, 1_000_000)).toBe(1_060_000)
    expect(nextRunMs(every, 1_000_000, 1_060_000)).toBe(1_120_000)
    expect(nextRunMs(every, 1_000_000, 7_777_777)).toBe(7_780_000)
    expect(nextRunMs(every, 1_000_000, 0)).toBe(1_060_000)
  })
})

describe('a cron text', () => {
  it.each(['0 9 * * 1-5', '*/15 * * * *', '0 0 9 * * *', '@daily', '0 0 1 1 *'])('%s is accepted', (cron) => {
    expect(() => checkSchedule({ cron, time_zone: 'UTC' })).not.toThrow()
  })

  it.each(['61 * * * *', '* *', '*', 'H * * * *', '0 0 30 2 *', 'tomorrow', '@reboot', '* * * * * * *'])(
    '%s is refused, and the error names the field and the reason',
    (cron) => {
      expect(() => checkSchedule({ cron, time_zone: 'UTC' })).toThrow(/^schedule\.cron: /)
    },
  )
})
