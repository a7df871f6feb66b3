/**
 * Where a command writes. Human words and colours on a terminal, plain words in a pipe, one JSON value with --json:
 * then stdout carries nothing else, and notes go to stderr.
 */
import type { Writable } from 'node:stream'
import { styleText, type InspectColor } from 'node:util'
import { createScreenFilter } from './screen-filter.ts'

export interface Output extends Writable {
  isTTY?: boolean
}

export interface Terminal {
  /** True with --json. */
  readonly json: boolean
  /** True when a human watches stdout. */
  readonly interactive: boolean
  /** One line on stdout; dropped with --json. */
  line(text?: string): void
  /** The one JSON value; dropped without --json. */
  value(value: unknown): void
  /** One line on stderr, for humans. */
  note(text: string): void
  /** What a program printed, as it came; on a terminal without sequences that could steer it. */
  program(stream: 'stdout' | 'stderr', text: string): void
  /** A changing line on a terminal's stderr; null removes it. Nothing elsewhere. */
  progress(text: string | null): void
  /** Colours `text` when stdout shows colours (NO_COLOR and FORCE_COLOR are respected). */
  style(format: InspectColor | InspectColor[], text: string): string
}

/** Makes the terminal over two streams. */
export function createTerminal(options: { stdout: Output; stderr: Output; json: boolean }): Terminal {
  const { stdout, stderr, json } = options
  const watched = stderr.isTTY === true && !json
  const filters = {
    stdout: stdout.isTTY === true ? createScreenFilter() : (text: string) => text,
    stderr: stderr.isTTY === true ? createScreenFilter() : (text: string) => text,
  }
  let progressShown = false
  const clear = () => {
    if (progressShown) stderr.write('\r\x1b[2K')
    progressShown = false
  }
  return {
    json,
    interactive: stdout.isTTY === true && !json,
    line(text = '') {
      clear()
      if (!json) stdout.write(`${text}\n`)
    },
    value(value) {
      if (json) stdout.write(`${JSON.stringify(value, null, stdout.isTTY === true ? 2 : 0)}\n`)
    },
    note(text) {
      clear()
      stderr.write(`${text}\n`)
    },
    program(stream, text) {
      clear()
      if (!json) options[stream].write(filters[stream](text))
    },
    progress(text) {
      clear()
      if (!watched || text === null) return
      stderr.write(styleText('dim', text, { stream: stderr }))
      progressShown = true
    },
    style: (format, text) => styleText(format, text, { stream: stdout }),
  }
}
