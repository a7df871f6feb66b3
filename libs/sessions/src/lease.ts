/**
 * The lease of one claimed session, renewed every third of its time until it is disposed. It is lost when
 * another holder claims the session, or when no renewal is answered until a tenth before its end. Then
 * `signal` aborts and writes throw `fenced`. The end counts from the sending of the last answered renewal, by
 * a monotonic clock. The server counts from a later moment, so the holder is the first to know. The fence
 * covers a suspended process and a server clock that is set forward.
 */
import {
  CofferdamError,
  isCofferdamError,
  type SessionEntry,
  type SessionLease,
  type SessionName,
  type WorkerId,
} from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { dueMemberOf, keys, memberOf } from './keys.ts'
import type { Calls, Reply } from './scripts.ts'
import { deadlineOf, entryText, readEntry } from './session-record.ts'

/** How long fence and epoch of a session without a sandbox are kept: longer than any clock is set back. */
export const REMEMBER_MS = 2 * 86_400_000
/** How long a session is kept after its deadline if no worker has its backend, so that nobody can end it. */
export const KEEP_AFTER_MS = 30 * 86_400_000

export interface LeaseParts {
  redis: Redis
  calls: Calls
  name: SessionName
  holder: WorkerId
  leaseMs: number
  /** Monotonic clock, in milliseconds, before the claim was sent. */
  sentMs: number
  /** The answer `claimed`. */
  reply: Reply
}

/** Creates the lease of a claimed session. */
export function createLease({
  redis,
  calls,
  name,
  holder,
  leaseMs,
  sentMs,
  reply,
}: LeaseParts): SessionLease {
  const fence = Number(reply[1])
  let nextEpoch = Number(reply[2])
  const entry = readEntry(String(reply[3]))
  const lost = new AbortController()
  const session = keys.session(name)
  const [due, dueMember] = [keys.due(redis, name.backend), dueMemberOf(name)]
  const isOverdue = entry !== null && deadlineOf(entry) <= Number(reply[4])
  let current = entry
  let isReleased = false
  let aliveUntilMs = sentMs + leaseMs * 0.9
  let last = Promise.resolve()
  const renewal = setInterval(() => {
    last = renew()
  }, leaseMs / 3)
  renewal.unref()
  let end = setTimeout(lose, aliveUntilMs - performance.now())
  end.unref()

  function lose(): void {
    if (isReleased) return
    stop()
    lost.abort(new CofferdamError('fenced', 'The session belongs to another worker now.'))
  }

  function stop(): void {
    clearInterval(renewal)
    clearTimeout(end)
  }

  /** Never rejects. A failed renewal is retried, and a silent server ends the lease. */
  async function renew(): Promise<void> {
    const atMs = performance.now()
    try {
      const lease = [fence, holder, leaseMs, REMEMBER_MS]
      let [code, hasEntry] = await calls.script('renew', [session], lease)
      // The server lost its data. This holder's state is valid unless another worker has claimed since.
      if (code === 'gone') [code, hasEntry] = await calls.script('restore', [session], lease)
      if (code === 'lost') return lose()
      if (hasEntry !== 1 && current !== null) await write(current)
      if (lost.signal.aborted || isReleased) return
      aliveUntilMs = atMs + leaseMs * 0.9
      clearTimeout(end)
      end = setTimeout(lose, aliveUntilMs - performance.now())
      end.unref()
      // Writes the deadline again: in a cluster, another shard may have lost it. A failure does not matter to
      // the lease.
      if (current !== null)
        await calls.bounded(redis.zadd(due, 'NX', deadlineOf(current), dueMember), 'a session deadline')
    } catch (error) {
      if (isFenced(error)) lose()
    }
  }

  function assertHeld(): void {
    if (isReleased) throw new CofferdamError('fenced', 'The session was released.')
    if (performance.now() > aliveUntilMs) lose()
    if (lost.signal.aborted) throw new CofferdamError('fenced', 'The session belongs to another worker now.')
  }

  /** Writes the deadline first: if the holder dies in between, there is one check too many, never too few. */
  async function write(next: SessionEntry, written: SessionEntry | null = null): Promise<void> {
    const text = entryText(next)
    const deadlineMs = deadlineOf(next)
    // An unchanged deadline is not written, because `overdue` may have postponed the check.
    if (written === null || deadlineOf(written) !== deadlineMs)
      await calls.bounded(redis.zadd(due, deadlineMs, dueMember), 'a session deadline')
    await fenced(
      'keep',
      [session, keys.tenant(name.tenantId)],
      [text, next.epoch, memberOf(name), next.createdAtMs, deadlineMs, KEEP_AFTER_MS],
    )
  }

  async function fenced(
    script: 'keep' | 'forget',
    scriptKeys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<void> {
    const [code] = await calls.script(script, scriptKeys, [fence, ...args])
    if (code !== 'fenced') return
    lose()
    throw new CofferdamError('fenced', 'The session belongs to another worker now.')
  }

  return {
    name,
    fence,
    entry,
    isOverdue,
    get nextEpoch() {
      return nextEpoch
    },
    signal: lost.signal,
    async keep(next) {
      assertHeld()
      await write(next, current)
      current = next
      nextEpoch = Math.max(nextEpoch, next.epoch + 1)
    },
    async forget() {
      assertHeld()
      const ended = current
      // Clear the entry first, so that no renewal writes it back.
      current = null
      await fenced('forget', [session, keys.tenant(name.tenantId)], [memberOf(name), REMEMBER_MS])
      if (ended === null) return
      // A failure is harmless: the reaper finds nothing to end and removes the line. A late call does not
      // touch the deadline of the next holder.
      await calls.script('move-due', [due], [dueMember, deadlineOf(ended), '']).catch(() => {})
    },
    async [Symbol.asyncDispose]() {
      if (isReleased) return
      isReleased = true
      stop()
      await last
      // If the server is down, the lease expires by itself.
      await calls.script('release', [session], [fence]).catch(() => {})
    },
  }
}

const isFenced = (error: unknown): boolean => isCofferdamError(error) && error.code === 'fenced'
