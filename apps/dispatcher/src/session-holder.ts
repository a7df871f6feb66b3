/**
 * Which work item serves a session now. The control plane offers an item again when its lease lapses, and may
 * make two items for one session. Of the items that have a lease, the one that got it last holds the session.
 * An earlier item notices this before it answers a tool call, and does not answer. When the holder ends, only
 * the item that held the session before it becomes the holder again.
 */
import { randomUUID } from 'node:crypto'
import { cellOf } from '@cofferdam/queue'
import type { Redis } from 'ioredis'

/**
 * Which call's answer tells the agent that its session has a new sandbox: the call with this ID, or the next
 * call if the ID is empty. Null if there is nothing to tell.
 */
export type Notice = string | null

export interface SessionHold extends AsyncDisposable {
  /** Makes this item the holder of the session. Only the first call has an effect. */
  take(): void
  /** Resolves when the session was taken. */
  readonly taken: Promise<void>
  /**
   * Who holds the session instead of this item. Null if nobody does. `same`: another process serves the same
   * item now.
   */
  successor(): Promise<'same' | 'other' | null>
  /** Remembers the session's sandbox. Resolves with the notice that its agent may have to get. */
  rememberSandbox(sandboxId: string): Promise<Notice>
  /**
   * Names the call whose answer tells the agent about the new sandbox, also if another dispatcher answers it.
   */
  tellWith(toolUseId: string): Promise<void>
}

/**
 * How long holders are remembered after the last one took the session. If none is known, an item counts as
 * the holder.
 */
const TTL_MS = 24 * 3_600_000

/** How long the sandbox of a session is remembered. After that, its agent is not told about a new one. */
const SANDBOX_TTL_MS = 30 * 24 * 3_600_000

/** Adds a holder. Keeps only the last 16, because killed dispatchers leave their entries. */
const TAKE = `redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], -16, -1)
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`

/** Does not delete the notice, because a dispatcher that names a call may die before it answers the call. */
const REMEMBER = `local before = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if before and before ~= ARGV[1] then redis.call('SET', KEYS[2], '', 'PX', ARGV[2]) end
return redis.call('GET', KEYS[2])`

/** The hold of an item that is going to be served. Disposing gives it up. */
export function holdOf(
  redis: Redis,
  item: { environmentId: string; sessionId: string; workId: string },
): SessionHold {
  const key = `${cellOf(redis).tag}:dispatcher:${item.environmentId}:${item.sessionId}`
  const holders = `${key}:holders`
  const mine = `${item.workId} ${randomUUID()}`
  const { promise: taken, resolve } = Promise.withResolvers<void>()
  // Avoids an unhandled rejection. Whoever awaits `taken` gets the error.
  taken.catch(() => undefined)
  let isAsked = false
  return {
    taken,
    take() {
      if (!isAsked) resolve(redis.eval(TAKE, 1, holders, mine, TTL_MS).then(() => undefined))
      isAsked = true
    },
    async successor() {
      const holder = await redis.lindex(holders, -1)
      if (holder === null || holder === mine) return null
      return holder.startsWith(`${item.workId} `) ? 'same' : 'other'
    },
    async rememberSandbox(sandboxId) {
      const [sandbox, notice] = [`${key}:sandbox`, `${key}:notice`]
      return (await redis.eval(REMEMBER, 2, sandbox, notice, sandboxId, SANDBOX_TTL_MS)) as Notice
    },
    async tellWith(toolUseId) {
      await redis.set(`${key}:notice`, toolUseId, 'PX', SANDBOX_TTL_MS)
    },
    async [Symbol.asyncDispose]() {
      await redis.lrem(holders, 0, mine)
    },
  }
}
