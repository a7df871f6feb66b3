import { describe, expect, it } from 'vitest'
import { prettyLine } from './pretty-line.ts'

const line = (facts: object) => JSON.stringify({ level: 30, time: 1_800_000_000_123, ...facts })

describe('prettyLine', () => {
  it('shows time, level, message and the other facts', () => {
    expect(prettyLine(line({ msg: 'taken', service: 's', pid: 1, execution_id: 'exe_1', n: 2 }), false)).toBe(
      '08:00:00.123 INFO  taken execution_id=exe_1 n=2\n',
    )
  })

  it('shows the stack of an error below', () => {
    const shown = prettyLine(line({ level: 50, msg: 'failed', err: { stack: 'Error: x\n    at y' } }), false)
    expect(shown).toBe('08:00:00.123 ERROR failed\n    Error: x\n        at y\n')
  })

  it('adds colours on request, and removes control characters from the message', () => {
    expect(prettyLine(line({ level: 40, msg: 'a\u001B[2Jb' }), false)).toBe('08:00:00.123 WARN  a [2Jb\n')
    expect(prettyLine(line({ level: 40, msg: 'x' }), true)).toContain('\u001B[33mWARN \u001B[0m')
  })

  it('returns other text unchanged', () => {
    expect(prettyLine('plain text\n', true)).toBe('plain text\n')
  })
})
