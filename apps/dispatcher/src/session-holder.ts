/**
 * Which work item serves a session now. The control plane offers an item again when its lease lapses, and may
 * make two items for one session. The item that began last holds the session. An earlier one finds that out
 * before it answers a tool call, and does not answer.
 */
import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'

export interface SessionHold extends AsyncDisposable {
  /** Null while this item holds the session. `same`: another process serves the same item now. */
  successor(): Promise<'same' | 'other' | null>
  /** Remembers the session's sandbox. True if the session had another one before. */
  rememberSandbox(sandboxId: string): Promise<boolean>
}

/** Longer than any item is served without a tool call that looks at it again. */
const TTL_MS = 24 * 3_600_000

/** A session that had no call for so long has forgotten which files it had. */
const SANDBOX_TTL_MS = 30 * 24 * 3_600_000

/** Deletes the key only if the value is still ours. */
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

/** Takes the session for an item, from whoever has it. */
export async function holdSession(
  redis: Redis,
  item: { environmentId: string; sessionId: string; workId: string },
): Promise<SessionHold> {
  const key = `{cofferdam}:dispatcher:${item.environmentId}:${item.sessionId}`
  const mine = `${item.workId} ${randomUUID()}`
  await redis.set(key, mine, 'PX', TTL_MS)
  return {
    async successor() {
      const holder = await redis.get(key)
      if (holder === null || holder === mine) return null
      return holder.startsWith(`${item.workId} `) ? 'same' : 'other'
    },
    async rememberSandbox(sandboxId) {
      const before = await redis.set(`${key}:sandbox`, sandboxId, 'PX', SANDBOX_TTL_MS, 'GET')
      return before !== null && before !== sandboxId
    },
    async [Symbol.asyncDispose]() {
      await redis.eval(RELEASE, 1, key, mine)
    },
  }
}
