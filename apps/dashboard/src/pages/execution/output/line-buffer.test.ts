import { expect, it } from 'vitest'
import { BLOCK_LINES, createLineBuffer, type LineBuffer } from './line-buffer.ts'

const linesOf = (buffer: LineBuffer): string[] =>
  buffer.blocks().flatMap(({ lines }) => lines.map(({ pieces }) => pieces.map(({ text }) => text).join('')))

it('joins what comes in parts, and keeps the streams apart', () => {
  const buffer = createLineBuffer()
  buffer.add('stdout', 'a')
  buffer.add('stderr', 'x\n')
  buffer.add('stdout', 'b\nc\n')
  expect(linesOf(buffer)).toEqual(['ab', 'x', 'c'])
  expect(buffer.blocks()[0]?.lines.map(({ stream }) => stream)).toEqual(['stdout', 'stderr', 'stdout'])
})

it('joins an escape that comes in two parts', () => {
  const buffer = createLineBuffer()
  buffer.add('stdout', '\u001b[3')
  buffer.add('stdout', '1mred\n')
  expect(linesOf(buffer)).toEqual(['red'])
  expect(buffer.blocks()[0]?.lines[0]?.pieces[0]?.look.colour).toBe(1)
})

it('shows the last version of a line that was drawn again', () => {
  const buffer = createLineBuffer()
  buffer.add('stdout', '10%\r')
  buffer.add('stdout', '50%\r100%')
  expect(linesOf(buffer)).toEqual(['100%'])
  buffer.add('stdout', '\r\nnext\r\n')
  expect(linesOf(buffer)).toEqual(['100%', 'next'])
})

it('keeps the last 5,000 lines, and full blocks as they are', () => {
  const buffer = createLineBuffer()
  for (let index = 0; index < 12_345; index += 1) buffer.add('stdout', `${index}\n`)
  expect(buffer.count()).toBe(12_345)
  expect(buffer.blocks().length * BLOCK_LINES).toBeLessThanOrEqual(5000)
  expect(buffer.kept()).toBe(linesOf(buffer).length)
  expect(linesOf(buffer).at(-1)).toBe('12344')
  const before = buffer.blocks()
  buffer.add('stdout', 'more\n')
  expect(
    buffer
      .blocks()
      .slice(0, -1)
      .every((block, index) => block === before[index]),
  ).toBe(true)
})

it('cuts a line without an end, and bounds what it keeps of it', () => {
  const buffer = createLineBuffer()
  for (let index = 0; index < 100; index += 1) buffer.add('stdout', 'x'.repeat(1000))
  expect(linesOf(buffer)).toEqual(['x'.repeat(2000)])
  expect(buffer.blocks()[0]?.lines[0]?.isCut).toBe(true)
  buffer.add('stdout', '\nnext\n')
  expect(linesOf(buffer)).toEqual(['x'.repeat(2000), 'next'])
})

it('keeps fewer lines when each has hundreds of colours', () => {
  const buffer = createLineBuffer()
  const colours = Array.from({ length: 400 }, (_, index) => `\u001b[3${index % 8}mx`).join('')
  for (let index = 0; index < 600; index += 1) buffer.add('stdout', `${colours}\n`)
  const lines = buffer.blocks().flatMap((block) => block.lines)
  expect(lines.reduce((sum, { pieces }) => sum + pieces.length, 0)).toBeLessThanOrEqual(40_000)
  expect(lines.length).toBe(buffer.kept())
  expect(lines.length).toBeGreaterThan(BLOCK_LINES / 2)
  for (let index = 0; index < 5000; index += 1) buffer.add('stdout', 'plain\n')
  expect(buffer.kept()).toBeGreaterThan(4900)
})
