/**
 * A byte stream to the agent made of plain requests. Whether Azure forwards web sockets or a response that stays open is not
 * documented, so nothing here needs more than a request and its answer: one long poll for what the agent writes, one POST after
 * the other for what it reads, both numbered by bytes, so that a lost answer costs time and never a byte.
 */
import { Readable, Writable } from 'node:stream'
import { callbackify } from 'node:util'
import type { PodCalls } from './pod-calls.ts'

/** An ingress is known to end requests after 240 s; far below it, and often enough to show that the worker lives. */
const POLL_MS = 20_000
/** The pod takes 1 MiB. */
const SEND_MAX = 512 * 1024
/** The pod gives its worker up after 90 s. */
const ALIVE_MS = 20_000

export interface PodChannel {
  readonly readable: Readable
  readonly writable: Writable
  /** Bytes that were read so far. */
  readonly readAt: number
}

/** Opens the stream of an attached pod; it ends with the error of the first call that fails for good. */
export function openPodChannel(calls: PodCalls, pollMs = POLL_MS): PodChannel {
  const stop = new AbortController()
  let readAt = 0
  let sentAt = 0
  let sending: Promise<void> = Promise.resolve()

  async function pull(): Promise<void> {
    try {
      while (!stop.signal.aborted) {
        const bytes = await calls.receive(readAt, pollMs, stop.signal)
        readAt += bytes.length
        if (bytes.length > 0) return void readable.push(bytes)
      }
    } catch (error) {
      if (!stop.signal.aborted) readable.destroy(error as Error)
    }
  }
  async function send(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const has = await calls.send(sentAt, bytes.subarray(at, at + SEND_MAX), stop.signal)
      at += has - sentAt
      sentAt = has
    }
  }
  const inOrder = (bytes: Buffer): Promise<void> => {
    sending = sending.then(() => send(bytes))
    return sending
  }
  // Also while a slow reader holds the poll up.
  const alive = setInterval(() => void inOrderAlive(), ALIVE_MS)
  alive.unref()
  const inOrderAlive = async (): Promise<void> => {
    await calls.send(sentAt, new Uint8Array(), stop.signal).catch(() => undefined)
  }

  const readable = new Readable({
    highWaterMark: 256 * 1024,
    read: () => void pull(),
    // At once, and not when the poll comes back: whatever is asked after the session's end would begin another one.
    destroy(error, done) {
      clearInterval(alive)
      stop.abort()
      done(error)
    },
  })
  const sendThen = callbackify(inOrder)
  const writable = new Writable({
    // What gathered while a call was under way goes with the next one.
    writev: (chunks, done) => sendThen(Buffer.concat(chunks.map(({ chunk }) => chunk as Buffer)), done),
    write: (chunk: Buffer, _encoding, done) => sendThen(chunk, done),
  })
  // The reader learns of it: without input the agent is of no use.
  writable.on('error', (error) => readable.destroy(error))
  // A session that is over listens no more.
  readable.on('error', () => {})
  return {
    readable,
    writable,
    get readAt() {
      return readAt
    },
  }
}
