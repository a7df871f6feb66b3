/**
 * Where a command writes: text and colours on a terminal, plain text in a pipe, and with --json one JSON
 * value on stdout. Notes always go to stderr. Names, messages and output may come from a hostile program, so
 * nothing that reaches a terminal can control it.
 */
import type { Writable } from 'node:stream'
import { type InspectColor, styleText } from 'node:util'

export interface Output extends Writable {
  isTTY?: boolean
}

export interface Terminal {
  /** True with --json. */
  readonly json: boolean
  /** True when stdout is a terminal and --json is not given. */
  readonly interactive: boolean
  /** One line on stdout. Dropped with --json. */
  line(text?: string): void
  /** Several lines on stdout. Dropped with --json. */
  lines(texts: Iterable<string>): void
  /** The one JSON value. Dropped without --json. */
  value(value: unknown): void
  /** One line on stderr, for humans. */
  note(text: string): void
  /**
   * The program's output: unchanged in a pipe, without control sequences on a terminal. Dropped with --json.
   */
  program(stream: 'stdout' | 'stderr', text: string): void
  /** A status line on stderr that replaces the previous one. Null removes it. Shown only on a terminal. */
  progress(text: string | null): void
  /** Colours `text` when stdout shows colours (NO_COLOR and FORCE_COLOR are respected). */
  style(format: InspectColor | InspectColor[], text: string): string
}

/** Creates the terminal over two streams. */
export function createTerminal(options: { stdout: Output; stderr: Output; json: boolean }): Terminal {
  const { stdout, stderr, json } = options
  const watched = stderr.isTTY === true && !json
  const filters = {
    stdout: stdout.isTTY === true ? createScreenFilter() : (text: string) => text,
    stderr: stderr.isTTY === true ? createScreenFilter() : (text: string) => text,
  }
  const screen = (output: Output, text: string): string =>
    output.isTTY === true ? createScreenFilter()(text) : text
  let progressShown = false
  const clear = () => {
    if (progressShown) stderr.write('\r\x1b[2K')
    progressShown = false
  }
  const line = (text = ''): void => {
    clear()
    if (!json) stdout.write(`${screen(stdout, text)}\n`)
  }
  return {
    json,
    interactive: stdout.isTTY === true && !json,
    line,
    lines(texts) {
      for (const text of texts) line(text)
    },
    value(value) {
      if (json) stdout.write(`${JSON.stringify(value, null, stdout.isTTY === true ? 2 : 0)}\n`)
    },
    note(text) {
      clear()
      stderr.write(`${screen(stderr, text)}\n`)
    },
    program(stream, text) {
      clear()
      if (!json) options[stream].write(filters[stream](text))
    },
    progress(text) {
      clear()
      if (!watched || text === null) return
      stderr.write(styleText('dim', screen(stderr, text).replaceAll('\n', ' '), { stream: stderr }))
      progressShown = true
    },
    style: (format, text) => styleText(format, text, { stream: stdout }),
  }
}

/** The longest incomplete sequence that is kept for the next chunk. A longer one is no colour. */
const LONGEST_SGR = 64

/* eslint-disable no-control-regex -- control characters are what this file is about */
const UNFINISHED_SGR = /\x1b(?:\[[0-9;:]*)?$/
const SGR_OR_CONTROL = /(\x1b\[[0-9;:]*m)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]/g
/* eslint-enable no-control-regex */

const caret = (character: string): string => {
  const code = character.charCodeAt(0)
  if (code === 0x7f) return '^?'
  return code < 0x20 ? `^${String.fromCharCode(code + 0x40)}` : `\\x${code.toString(16)}`
}

/**
 * Returns a filter that makes one output stream of a program safe to show on a terminal. Programs are
 * untrusted, and a terminal obeys what they print: titles, cursor moves, clipboard writes, typed answers.
 * Text, tabs, line ends and colours (SGR) pass. Other control characters are shown in caret notation (`^G`),
 * or as `\x9b` from 0x80 on. The filter keeps an incomplete colour sequence until the next chunk.
 */
export function createScreenFilter(): (text: string) => string {
  let held = ''
  return (text) => {
    const whole = held + text
    const tail = UNFINISHED_SGR.exec(whole)?.[0] ?? ''
    held = tail.length <= LONGEST_SGR ? tail : ''
    return whole
      .slice(0, whole.length - held.length)
      .replace(SGR_OR_CONTROL, (found, sgr: string | undefined) => sgr ?? caret(found))
  }
}

/** Width of the bar. */
const CELLS = 24

/** The progress that a program reports, in one line: `[#########···············]  40 %  fitting` */
export function progressBar(fraction: number, message: string): string {
  const full = Math.round(Math.min(1, Math.max(0, fraction)) * CELLS)
  const percent = String(Math.floor(fraction * 100)).padStart(3)
  return `[${'#'.repeat(full)}${'·'.repeat(CELLS - full)}] ${percent} %  ${message}`.trimEnd()
}
