/**
 * The last lines of an output, in blocks. Only the last block and blocks with an unfinished line change, so a
 * redraw stays cheap however much the program prints.
 */
import { PLAIN, readLine, type Look, type Piece } from './ansi.ts'

export type Stream = 'stdout' | 'stderr'

export interface Line {
  stream: Stream
  pieces: readonly Piece[]
  /** Whether the end of the line is left out. */
  isCut: boolean
}

export interface Block {
  /** Number of the block, from 0. */
  id: number
  lines: readonly Line[]
}

/** Lines of one block. */
export const BLOCK_LINES = 100
/** Blocks that are kept: 5,000 lines. */
const MOST_BLOCKS = 50
/** Pieces that are kept. If lines have hundreds of colours, fewer than 5,000 lines are kept. */
const MOST_PIECES = 40_000
/** Characters of a line that are kept, because a program may print no line end at all. */
const MOST_COLUMNS = 2000

export interface LineBuffer {
  /** Adds what a stream wrote. It may end within a line. */
  add(stream: Stream, text: string): void
  /** The blocks, the oldest first. A block that did not change is the same object as before. */
  blocks(): readonly Block[]
  /** Number of lines so far, kept or not. */
  count(): number
  /** Lines that are kept. */
  kept(): number
}

interface Pending {
  look: Look
  /**
   * The text since the last line end. One character more than is shown is kept, so that the buffer can tell
   * that the line is longer.
   */
  text: string
  /** The line in the blocks that shows this text. Null until some text has come. */
  at: Line | null
}

interface Growing {
  id: number
  lines: Line[]
  pieces: number
  /** The copy that `blocks()` last returned. Null if the block has changed since then. */
  given: Block | null
}

export function createLineBuffer(): LineBuffer {
  const blocks: Growing[] = []
  let count = 0
  let pieces = 0
  const pending: Record<Stream, Pending> = {
    stdout: { look: PLAIN, text: '', at: null },
    stderr: { look: PLAIN, text: '', at: null },
  }

  const grow = (block: Growing, by: number): void => {
    block.pieces += by
    pieces += by
    block.given = null
  }
  const append = (line: Line): void => {
    count += 1
    let last = blocks.at(-1)
    if (last === undefined || last.lines.length >= BLOCK_LINES) {
      last = { id: (last?.id ?? -1) + 1, lines: [], pieces: 0, given: null }
      blocks.push(last)
    }
    last.lines.push(line)
    grow(last, line.pieces.length)
    while (blocks.length > 1 && (blocks.length > MOST_BLOCKS || pieces > MOST_PIECES))
      pieces -= blocks.shift()?.pieces ?? 0
  }
  /** Replaces an earlier version of a line. Does nothing if that version was dropped meanwhile. */
  const replace = (before: Line, line: Line): void => {
    const block = blocks.findLast(({ lines }) => lines.includes(before))
    if (block === undefined) return
    block.lines[block.lines.lastIndexOf(before)] = line
    grow(block, line.pieces.length - before.pieces.length)
  }
  const draw = (stream: Stream, text: string, isEnded: boolean): void => {
    const state = pending[stream]
    // A program that draws a progress bar returns to the start of the line: only the last version stays.
    const shown = text.slice(0, -1).lastIndexOf('\r') + 1
    const whole = text.slice(shown).replace(/\r$/, '')
    const { pieces, look } = readLine(whole.slice(0, MOST_COLUMNS), state.look)
    const line: Line = { stream, pieces, isCut: whole.length > MOST_COLUMNS }
    if (state.at === null) append(line)
    else replace(state.at, line)
    if (isEnded) pending[stream] = { look, text: '', at: null }
    else pending[stream] = { ...state, text: text.slice(shown, shown + MOST_COLUMNS + 1), at: line }
  }

  return {
    add(stream, text) {
      const parts = (pending[stream].text + text).split('\n')
      const rest = parts.pop() ?? ''
      for (const part of parts) draw(stream, part, true)
      if (rest !== '') draw(stream, rest, false)
    },
    blocks: () => blocks.map((block) => (block.given ??= { id: block.id, lines: [...block.lines] })),
    count: () => count,
    kept: () => blocks.reduce((sum, { lines }) => sum + lines.length, 0),
  }
}
