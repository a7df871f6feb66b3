/**
 * A byte stream to the agent made of plain requests. Whether Azure forwards web sockets or a response that stays open is not
 * documented, so nothing here needs more than a request and its answer: one long poll for what the agent writes, one POST after
 * the other for what it reads, both numbered by bytes, so that a lost answer costs time and never a byte.
 *
 * Nobody polls while the agent owes no answer: a poll that left just before the session's end would begin another one, and where
 * executions carry the requests, one at a time, it would hold up what is sent next. There a poll also takes what there is and returns
 * while something waits to be sent.
 */
import { Readable, Writable } from 'node:stream'
import { callbackify } from 'node:util'
import { isCofferdamError } from '@cofferdam/contract'
import { countOwedAnswers } from './owed-answers.ts'
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

/**
 * Opens the stream of an attached pod; it ends with the error of the first call that fails for good. `oneAtATime`: a poll that waits would
 * hold up other calls, and takes at most so long.
 */
export function openPodChannel(calls: PodCalls, oneAtATime?: { pollMs: number }): PodChannel {
  const stop = new AbortController()
  const owed = countOwedAnswers()
  let readAt = 0
  let sentAt = 0
  let sending: Promise<void> = Promise.resolve()
  let waiting = 0
  let wake: (() => void) | null = null

  async function pull(): Promise<void> {
    try {
      while (!stop.signal.aborted) {
        await isOwed()
        const waitMs = oneAtATime === undefined ? POLL_MS : waiting > 0 ? 0 : oneAtATime.pollMs
        const bytes = await calls.receive(readAt, waitMs, stop.signal)
        readAt += bytes.length
        owed.heard(bytes)
        if (bytes.length > 0) return void readable.push(bytes)
      }
    } catch (error) {
      if (!stop.signal.aborted) readable.destroy(error as Error)
    }
  }
  /** Resolves when the agent is to say something, or the stream is over. */
  async function isOwed(): Promise<void> {
    while (owed.none && !stop.signal.aborted)
      await new Promise<void>((resolve) => {
        wake = resolve
      })
  }
  async function send(bytes: Buffer): Promise<void> {
    owed.sent(bytes)
    for (let at = 0; at < bytes.length;) {
      const has = await calls.send(sentAt, bytes.subarray(at, at + SEND_MAX), stop.signal)
      at += has - sentAt
      sentAt = has
      // Between the pieces: an agent that is not heard stops reading.
      if (at < bytes.length) wake?.()
    }
  }
  const inOrder = (bytes: Buffer): Promise<void> => {
    waiting += 1
    sending = sending
      .then(() => send(bytes))
      .finally(() => {
        waiting -= 1
        // Behind it and not before: the poll would be there first.
        wake?.()
      })
    return sending
  }
  // Also while a slow reader holds the poll up.
  const alive = setInterval(() => void inOrderAlive(), ALIVE_MS)
  alive.unref()
  const inOrderAlive = async (): Promise<void> => {
    await calls.send(sentAt, new Uint8Array(), stop.signal).catch((error: unknown) => {
      // Nobody else may be asking who would find out.
      if (isCofferdamError(error) && error.code === 'sandbox_lost') readable.destroy(error)
    })
  }

  const readable = new Readable({
    highWaterMark: 256 * 1024,
    read: () => void pull(),
    // At once, and not when the poll comes back: whatever is asked after the session's end would begin another one.
    destroy(error, done) {
      clearInterval(alive)
      stop.abort()
      wake?.()
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
