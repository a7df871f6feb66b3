/**
 * A byte stream to the agent, made of plain requests. Azure does not document whether it forwards web sockets
 * or a response that stays open. So one long poll reads what the agent writes, and one POST after another
 * sends. Both number their bytes, so a lost answer costs time but no byte. Nobody polls while the agent owes
 * no answer. A poll that left just before the session's end would create another session. If executions carry
 * the requests one at a time, a poll would also delay the next send. So a poll that starts while something
 * waits to be sent returns at once.
 */
import { Readable, Writable } from 'node:stream'
import { callbackify } from 'node:util'
import { isCofferdamError } from '@cofferdam/contract'
import { countOwedAnswers } from './owed-answers.ts'
import type { PodCalls } from './pod-calls.ts'

/** Well below the 240 s after which some ingresses end requests, and a sign that the worker is alive. */
const POLL_MS = 20_000
/** The pod accepts 1 MiB. */
const SEND_MAX = 512 * 1024
/** An attached pod ends after 90 s without a request. */
const ALIVE_MS = 20_000

export interface PodChannel {
  readonly readable: Readable
  readonly writable: Writable
  /** The number of bytes read so far. */
  readonly readAt: number
}

/**
 * Opens the stream of an attached pod. The stream ends with the error of the first call that fails for good.
 * With `oneAtATime` a poll holds up other calls, so it waits at most `pollMs`.
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
  /** Resolves when the agent owes an answer, or the stream is over. */
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
      // Start a poll between pieces, because an agent whose output nobody reads stops reading.
      if (at < bytes.length) wake?.()
    }
  }
  const inOrder = (bytes: Buffer): Promise<void> => {
    waiting += 1
    sending = sending
      .then(() => send(bytes))
      .finally(() => {
        waiting -= 1
        // Start the poll after the send, so that the poll does not overtake the send.
        wake?.()
      })
    return sending
  }
  // Keeps the pod alive even while a slow reader holds up the poll.
  const alive = setInterval(() => void inOrderAlive(), ALIVE_MS)
  alive.unref()
  const inOrderAlive = async (): Promise<void> => {
    await calls.send(sentAt, new Uint8Array(), stop.signal).catch((error: unknown) => {
      // Report it here, because there may be no other call in flight that would notice.
      if (isCofferdamError(error) && error.code === 'sandbox_lost') readable.destroy(error)
    })
  }

  const readable = new Readable({
    highWaterMark: 256 * 1024,
    read: () => void pull(),
    // Stop at once, because any call after the session's end would create another session.
    destroy(error, done) {
      clearInterval(alive)
      stop.abort()
      wake?.()
      done(error)
    },
  })
  const sendThen = callbackify(inOrder)
  const writable = new Writable({
    // Data that arrived during a call goes with the next one.
    writev: (chunks, done) => sendThen(Buffer.concat(chunks.map(({ chunk }) => chunk as Buffer)), done),
    write: (chunk: Buffer, _encoding, done) => sendThen(chunk, done),
  })
  // Destroying the reader reports it, because the agent is useless without input.
  writable.on('error', (error) => readable.destroy(error))
  // After the session is closed nobody listens, and Node.js throws an unheard `error` event.
  readable.on('error', () => {})
  return {
    readable,
    writable,
    get readAt() {
      return readAt
    },
  }
}
