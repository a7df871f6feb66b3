/**
 * Finds a program's live output in the text of a running call: numbered lines with the request's nonce
 * (cell/live.py). A line may come as text and again in the result, and text may be split anywhere.
 */
import type { TextSource } from './consume-stream.ts'

export interface Piece {
  stream: 'stdout' | 'stderr'
  bytes: Buffer
}

/** A line has at most 4 KiB (cell/live.py). Longer text without an end is not a line. */
const LINE_MAX = 8 * 1024

export interface LiveLines {
  /** The pieces that this text completes, in order. */
  take(source: TextSource, text: string): Piece[]
}

export function createLiveLines(nonce: string): LiveLines {
  const cut: Record<TextSource, string> = { text: '', stdout: '', stderr: '' }
  const lines = linesOf(nonce)
  let next = 0

  return {
    take(source, text) {
      const all = cut[source] + text
      const pieces: Piece[] = []
      let readTo = 0
      for (const line of all.matchAll(lines)) {
        const [whole, number, stream, base64 = ''] = line
        readTo = line.index + whole.length
        if (Number(number) !== next) continue
        next += 1
        pieces.push({ stream: stream as Piece['stream'], bytes: Buffer.from(base64, 'base64') })
      }
      cut[source] = all.slice(Math.max(readTo, all.length - LINE_MAX))
      return pieces
    },
  }
}

/**
 * Removes the live lines from a tool's output. The last one may lack its newline, because the service strips
 * the output's last newline.
 */
export const withoutLines = (text: string, nonce: string): string =>
  text.replaceAll(linesOf(nonce, '(?:\\r?\\n|$)'), '')

/** Matches whole lines, because the beginning of a line may be followed by another complete line. */
const linesOf = (nonce: string, end = '\\r?\\n'): RegExp =>
  new RegExp(
    `@cofferdam-live:${nonce}:(\\d{1,9}):(stdout|stderr):([A-Za-z0-9+/=]{0,${LINE_MAX}})@${end}`,
    'g',
  )
