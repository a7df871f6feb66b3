/** A process at a vendor whose stdin and stdout are a byte channel. */
import { Writable, type Readable } from 'node:stream'
import { callbackify } from 'node:util'

export interface Channel {
  readable: Readable
  writable: Writable
  /** What it wrote last to stderr. */
  stderrTail(): string
}

/** Stdin by calls, one after the other: what gathers while one is under way goes with the next. */
export function writableOf(send: (bytes: Buffer) => Promise<void>): Writable {
  const sendThen = callbackify(send)
  return new Writable({
    writev: (chunks, done) => sendThen(Buffer.concat(chunks.map(({ chunk }) => chunk as Buffer)), done),
    write: (chunk: Buffer, _encoding, done) => sendThen(chunk, done),
  })
}
