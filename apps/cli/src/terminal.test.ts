import { Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { createScreenFilter, createTerminal, progressBar } from './terminal.ts'

const filter = (...chunks: string[]): string[] => chunks.map(createScreenFilter())

describe('the screen filter', () => {
  it('passes text, line ends, tabs and colours', () => {
    const text = 'grün\tund\r\n\x1b[1;31mrot\x1b[0m ✓'
    expect(filter(text)).toEqual([text])
  })

  it.each([
    ['\x1b]0;title\x07', '^[]0;title^G'],
    ['\x1b[2J', '^[[2J'],
    ['\x1b[6n', '^[[6n'],
    ['a\bb', 'a^Hb'],
    ['\x7f', '^?'],
    ['\x9b2J', '\\x9b2J'],
    ['\x00', '^@'],
  ])('prints %j visibly instead of sending it to the terminal', (text, shown) => {
    expect(filter(text)).toEqual([shown])
  })

  it('recognizes a colour that is split over two chunks', () => {
    expect(filter('a\x1b[3', '1mred')).toEqual(['a', '\x1b[31mred'])
    expect(filter('\x1b', ']0;x')).toEqual(['', '^[]0;x'])
  })

  it('does not hold back a sequence that never ends', () => {
    expect(filter('\x1b[' + '1;'.repeat(100))[0]).toMatch(/^\^\[\[1;/)
  })
})

it('the progress bar draws none, half and all, and shows 100 % only at the end', () => {
  expect(progressBar(0, '')).toBe(`[${'·'.repeat(24)}]   0 %`)
  expect(progressBar(0.5, 'fitting')).toBe(`[${'#'.repeat(12)}${'·'.repeat(12)}]  50 %  fitting`)
  expect(progressBar(0.999, 'x')).toBe(`[${'#'.repeat(24)}]  99 %  x`)
  expect(progressBar(1, 'done')).toBe(`[${'#'.repeat(24)}] 100 %  done`)
})

describe('a terminal', () => {
  const HOSTILE = 'Error: \x1b]0;title\x07 and \x1b[2J'
  const screenOf = (isTTY: boolean) => {
    const written: string[] = []
    const write = (chunk: Buffer, _: unknown, done: () => void): void => {
      written.push(chunk.toString())
      done()
    }
    const output = () => Object.assign(new Writable({ write }), { isTTY })
    return { written, terminal: createTerminal({ stdout: output(), stderr: output(), json: false }) }
  }

  it('is not controlled by a name or message of a program', () => {
    const { written, terminal } = screenOf(true)
    terminal.line(HOSTILE)
    terminal.note(HOSTILE)
    terminal.progress(`${HOSTILE}\nsecond line`)
    terminal.program('stderr', HOSTILE)
    expect(written.filter((text) => text.includes('^[]0;title^G and ^[[2J'))).toHaveLength(4)
    for (const text of written) for (const sent of ['\x1b]', '\x1b[2J']) expect(text).not.toContain(sent)
  })

  it('that is a pipe gets every byte', () => {
    const { written, terminal } = screenOf(false)
    terminal.line(HOSTILE)
    expect(written).toEqual([`${HOSTILE}\n`])
  })
})
