/**
 * Waits for results, with one subscription per producer. await.lua registers a waiter's channel in Redis, and
 * the ending publishes to it. Messages may be lost, so every waiter asks again every few seconds and after a
 * reconnect: a lost message costs time, never an answer.
 *
 * States of an entry:   expect (before put) ─┐
 *                       wait ────────────────┴→ registered → answered (message or recheck) → removed
 */
import { CofferdamError, type ExecutionId, type ExecutionResult } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { QUEUE_BOUNDS } from './bounds.ts'
import type { Guard } from './connect.ts'
import { resultOf } from './execution-state.ts'
import { channelsOf, keysOf } from './cell.ts'
import { runCoded, SCRIPTS, text } from './scripts.ts'

/** The longest delay that setTimeout takes (about 25 days). */
const TIMER_MAX_MS = 2 ** 31 - 1

type Listener = (answer: ExecutionResult | CofferdamError) => void

interface Entry {
  registered: boolean
  result: ExecutionResult | null
  listeners: Set<Listener>
}

export interface Replies {
  readonly channel: string
  /** Subscribes if necessary, and keeps an answer for `id` until somebody waits for it. */
  expect(id: ExecutionId): Promise<void>
  /** Removes the expectation of an execution that was not accepted. */
  unexpect(id: ExecutionId): void
  /**
   * The result. Null when the execution did not end in time. Throws not_found, or the reason of an aborted
   * signal.
   */
  wait(
    id: ExecutionId,
    options: { timeoutMs: number; signal?: AbortSignal | undefined },
  ): Promise<ExecutionResult | null>
  close(): Promise<void>
}

export function createReplies(redis: Redis, subscriber: Redis, guard: Guard, producerId: string): Replies {
  const channel = channelsOf(redis).reply + producerId
  const entries = new Map<ExecutionId, Entry>()
  /** Expected and not yet waited for, oldest first. */
  const unclaimed = new Set<ExecutionId>()
  let subscribed: Promise<unknown> | null = null
  let isSubscribed = false
  let recheckTimer: NodeJS.Timeout | null = null

  const answer = (id: ExecutionId, entry: Entry, result: ExecutionResult | CofferdamError): void => {
    for (const listener of entry.listeners) listener(result)
    if (entry.listeners.size > 0 || result instanceof CofferdamError) entries.delete(id)
    else entry.result = result
  }

  /** Asks Redis for the result and registers again, in case the message or the registration was lost. */
  const ask = async (id: ExecutionId, entry: Entry): Promise<void> => {
    const { code, rest } = await runCoded(redis, SCRIPTS.await, keysOf(redis).record + id, [id, channel])
    if (code === 'waiting') {
      entry.registered = true
      return
    }
    answer(id, entry, resultOf(text(rest[0])) ?? new CofferdamError('not_found', `no execution ${id}`))
  }

  const recheck = (): void => {
    for (const [id, entry] of entries)
      if (entry.listeners.size > 0) ask(id, entry).catch(() => undefined /* asked again at the next tick */)
  }

  const onMessage = (from: string, message: string): void => {
    if (from !== channel) return
    const space = message.indexOf(' ')
    const id = (space === -1 ? message : message.slice(0, space)) as ExecutionId
    const entry = entries.get(id)
    if (entry === undefined) return
    const result = space === -1 ? null : resultOf(message.slice(space + 1))
    if (result === null) ask(id, entry).catch(() => undefined /* asked again by the recheck */)
    else answer(id, entry, result)
  }

  /** Waits a bounded time, because without a subscription the rechecks still find every result. */
  const subscribe = async (): Promise<void> => {
    if (isSubscribed) return
    if (subscribed === null) {
      subscriber.on('message', onMessage)
      subscriber.on('ready', recheck)
      subscribed = subscriber.subscribe(channel)
      subscribed.then(
        () => (isSubscribed = true),
        () => undefined,
      )
      recheckTimer = setInterval(recheck, QUEUE_BOUNDS.recheckMs)
      recheckTimer.unref()
    }
    let timer: NodeJS.Timeout | undefined
    const patience = new Promise((resolve) => (timer = setTimeout(resolve, QUEUE_BOUNDS.connectPatienceMs)))
    await Promise.race([subscribed.catch(() => undefined), patience])
    clearTimeout(timer)
  }

  const entryOf = (id: ExecutionId): Entry => {
    const known = entries.get(id)
    if (known !== undefined) return known
    const entry: Entry = { registered: false, result: null, listeners: new Set() }
    entries.set(id, entry)
    return entry
  }

  const dropOldestUnclaimed = (): void => {
    const [oldest] = unclaimed
    if (oldest === undefined) return
    unclaimed.delete(oldest)
    // Keep an entry that somebody waits for: its execution was put again with the same idempotency key.
    if (entries.get(oldest)?.listeners.size === 0) entries.delete(oldest)
  }

  const leave = (id: ExecutionId, entry: Entry): void => {
    if (entry.listeners.size > 0 || entries.get(id) !== entry || entry.result !== null) return
    entries.delete(id)
    redis.srem(keysOf(redis).waiters + id, channel).catch(() => undefined /* the set expires by itself */)
  }

  return {
    channel,
    async expect(id) {
      await subscribe()
      entryOf(id).registered = true
      unclaimed.add(id)
      if (unclaimed.size > QUEUE_BOUNDS.unclaimedReplies) dropOldestUnclaimed()
    },
    unexpect(id) {
      entries.delete(id)
      unclaimed.delete(id)
    },
    async wait(id, { timeoutMs, signal }) {
      signal?.throwIfAborted()
      await subscribe()
      const entry = entryOf(id)
      unclaimed.delete(id)
      if (entry.result !== null) {
        entries.delete(id)
        return entry.result
      }
      const ended = Promise.withResolvers<ExecutionResult | null>()
      // If an abort or `close` rejects this promise while `ask` below fails, nobody handles the rejection.
      ended.promise.catch(() => undefined)
      const listener: Listener = (result) =>
        result instanceof CofferdamError ? ended.reject(result) : ended.resolve(result)
      const onAbort = (): void => ended.reject(signal?.reason)
      entry.listeners.add(listener)
      signal?.addEventListener('abort', onAbort)
      let timer: NodeJS.Timeout | undefined
      try {
        // Asks before the timer starts, so that an ended execution is answered whatever the timeout is.
        if (!entry.registered) await guard(() => ask(id, entry))
        timer = setTimeout(() => ended.resolve(null), Math.min(timeoutMs, TIMER_MAX_MS))
        return await ended.promise
      } finally {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
        entry.listeners.delete(listener)
        leave(id, entry)
      }
    },
    async close() {
      if (recheckTimer !== null) clearInterval(recheckTimer)
      subscriber.off('message', onMessage)
      subscriber.off('ready', recheck)
      const closed = new CofferdamError(
        'shutting_down',
        'the producer was closed while an execution was awaited',
      )
      for (const [id, entry] of entries) answer(id, entry, closed)
      if (subscribed !== null && subscriber.status === 'ready') await subscriber.unsubscribe(channel)
    },
  }
}
