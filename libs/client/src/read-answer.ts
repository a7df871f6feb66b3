/** Reads the body of an answer: as bytes, as text, as JSON, or line by line. */
import { CofferdamError } from '@cofferdam/contract/error-table'

export async function bytesOf(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  for await (const chunk of chunks) parts.push(chunk)
  const whole = new Uint8Array(parts.reduce((total, { length }) => total + length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

export const textOf = async (chunks: AsyncIterable<Uint8Array>): Promise<string> =>
  new TextDecoder().decode(await bytesOf(chunks))

/** Parses JSON of the API. Undefined for an empty text. Throws `internal` for anything else. */
export function jsonOf(text: string): unknown {
  if (text === '') return undefined
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new CofferdamError('internal', 'The API sent an answer that is not JSON.', { cause })
  }
}

/** Longest line, in characters. An audit row has about 1 KB, and a program of a routine 1 MiB. */
const LINE_MAX = 8 * 1024 * 1024

/**
 * Yields each complete line without its LF. Drops an incomplete last one. Throws `internal` above LINE_MAX.
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > LINE_MAX) throw new CofferdamError('internal', 'The API sent an endless line.')
    yield* lines
  }
}
