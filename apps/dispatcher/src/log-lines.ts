/** Logs what a program writes, without the secrets that it was given. */
import type { Readable } from 'node:stream'

/** Longer lines are cut. A record of a log should stay readable. */
const LINE_CHARS = 8192
const HIDDEN = '[redacted]'

/** Calls `log` for each line of a stream. `secrets` are replaced wherever they are in a line. */
export function logLines(stream: Readable, secrets: readonly string[], log: (line: string) => void): void {
  // Enough is kept beyond the cut that a secret which crosses it is still whole, and is replaced.
  const most = LINE_CHARS + Math.max(0, ...secrets.map(({ length }) => length))
  const write = (line: string): void => {
    const clean = secrets.reduce((text, secret) => text.replaceAll(secret, HIDDEN), line)
    if (clean.trim() !== '') log(clean.slice(0, LINE_CHARS))
  }
  let kept = ''
  stream.setEncoding('utf8')
  stream.on('data', (text: string) => {
    const lines = text.split('\n')
    const last = lines.pop() ?? ''
    for (const line of lines) {
      write((kept + line).slice(0, most))
      kept = ''
    }
    kept = (kept + last).slice(0, most)
  })
  stream.on('end', () => write(kept))
  stream.on('error', () => undefined)
}
