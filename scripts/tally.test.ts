import { describe, expect, it } from 'vitest'
import { reasonOf, type ReportLine } from './report-tests.ts'
import { tally } from './tally.ts'

const report = (...lines: ReportLine[]): string => lines.map((line) => JSON.stringify(line) + '\n').join('')
const END: ReportLine = { type: 'end', interrupted: false }

describe('tally', () => {
  it('counts the tests, and groups skipped tests by reason', () => {
    const skipped = (name: string, reason: string): ReportLine => ({
      type: 'skipped',
      file: 'a',
      name,
      reason,
    })
    const sum = tally(
      report(
        { type: 'passed', file: 'a', name: 'one' },
        { type: 'failed', file: 'a', name: 'two' },
        skipped('three', 'no docker'),
        skipped('four', 'no docker'),
        skipped('five', ''),
        END,
      ),
    )
    expect(sum).toMatchObject({ passed: 1, failed: 1, skipped: 3, failures: ['a > two'], complete: true })
    expect([...sum.skips]).toEqual([
      ['no docker', ['a > three', 'a > four']],
      ['no reason given', ['a > five']],
    ])
  })

  it('counts a file that does not load as a failure', () => {
    const sum = tally(report({ type: 'broken', file: 'a', name: 'the file failed' }, END))
    expect(sum).toMatchObject({ passed: 0, failed: 1 })
  })

  it('gives the failed set-up, not a missing part, as the reason for skipped tests', () => {
    const sum = tally(
      report(
        { type: 'skipped', file: 'a', name: 'x (needs docker)', reason: 'docker' },
        { type: 'broken', file: 'a', name: 'set-up' },
        END,
      ),
    )
    expect([...sum.skips.keys()]).toEqual(['the set-up of the suite failed'])
  })

  it('counts a run without an end as failed', () => {
    expect(tally(report({ type: 'passed', file: 'a', name: 'one' }))).toMatchObject({ passed: 1, failed: 1 })
    expect(tally('')).toMatchObject({ passed: 0, failed: 1, failures: ['the run did not reach its end'] })
    expect(tally(report({ type: 'end', interrupted: true })).failed).toBe(1)
  })
})

describe('reasonOf', () => {
  it.each([
    ['docker — needs docker: no daemon (yet) > opens', 'needs docker: no daemon (yet)'],
    ['runs (twice) — needs root: uid 1000', 'needs root: uid 1000'],
    ['opens (and closes)', ''],
  ])('finds in the title %j the reason %j', (title, reason) => {
    expect(reasonOf(title)).toBe(reason)
  })
})
