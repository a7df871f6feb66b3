import { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { logLines } from './log-lines.ts'

const SECRET = 'c2VjcmV0LW9mLWl0ZW0'

async function linesOf(chunks: readonly string[]): Promise<string[]> {
  const lines: string[] = []
  const stream = Readable.from(chunks.map((chunk) => Buffer.from(chunk)))
  logLines(stream, [SECRET], (line) => lines.push(line))
  await finished(stream)
  return lines
}

/** `text` in pieces that end at these places. */
const cut = (text: string, places: readonly number[]): string[] => {
  const ends = [...new Set(places.map((place) => place % (text.length + 1)))].toSorted((a, b) => a - b)
  return [0, ...ends].map((from, index) => text.slice(from, ends[index] ?? text.length))
}

it('logs the same lines however the output is cut, without the secret', async () => {
  const part = fc.constantFrom('a', 'é', '\n', ' b', SECRET, SECRET.slice(0, 5), 'x'.repeat(8190))
  await fc.assert(
    fc.asyncProperty(
      fc.array(part, { maxLength: 12 }),
      fc.array(fc.nat(), { maxLength: 6 }),
      async (parts, places) => {
        const text = parts.join('')
        const lines = await linesOf(cut(text, places).filter((piece) => piece !== ''))
        expect(lines.join('\n')).not.toContain(SECRET)
        expect(lines).toEqual(
          text
            .split('\n')
            .map((line) =>
              line
                .slice(0, 8192 + SECRET.length)
                .replaceAll(SECRET, '[redacted]')
                .slice(0, 8192),
            )
            .filter((line) => line.trim() !== ''),
        )
      },
    ),
    { numRuns: 60 },
  )
})

it('does not log the beginning of a secret where it cuts a line', async () => {
  const [line] = await linesOf(['x'.repeat(8185) + SECRET + '\n'])
  expect(line).toBe(`${'x'.repeat(8185)}[redact`)
})
