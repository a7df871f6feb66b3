/**
 * What a program printed, found in the text of a call that still runs: lines that its cell puts there (cell/live.py), numbered,
 * named by the request's nonce. The same line may come as text and again in the result, and text in any pieces.
 */
import type { TextSource } from './consume-stream.ts'

export interface Piece {
  stream: 'stdout' | 'stderr'
  bytes: Buffer
}

/** A line is at most 4 KiB (cell/live.py); what is longer and has no end is none. */
const LINE_MAX = 8 * 1024

export interface LiveLines {
  /** The pieces that this text completes, in order. */
  take(source: TextSource, text: string): Piece[]
}

/** Reads the lines of one request. */
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

/** A tool's output without these lines; the service strips the newline at its end. */
export const withoutLines = (text: string, nonce: string): string =>
  text.replaceAll(linesOf(nonce, '(?:\\r?\\n|$)'), '')

/** With its end: what a line begins with may stand before another one that is whole. */
const linesOf = (nonce: string, end = '\\r?\\n'): RegExp =>
  new RegExp(
    `@cofferdam-live:${nonce}:(\\d{1,9}):(stdout|stderr):([A-Za-z0-9+/=]{0,${LINE_MAX}})@${end}`,
    'g',
  )
