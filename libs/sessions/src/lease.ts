/**
 * One held session.
 *
 *   held ──a third of the lease──▶ renewed ──▶ held …
 *     │ no renewal answered until a tenth before its end, or a later holder ─▶ lost: `signal`, writes throw `fenced`
 *     └ dispose ─▶ given back
 *
 * The end is counted from the moment at which the last answered renewal was sent, by the process's own steady clock: the
 * server's count begins later, so the holder knows first. What a stopped process or a clock set forward gets past this
 * is caught by the fence.
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

/** Fence and epoch of a session without a sandbox outlive it by this: more than any clock is set back by. */
export const REMEMBER_MS = 2 * 86_400_000
/** So long after its deadline a session that nobody could end is given up: its backend was gone from every worker. */
export const KEEP_AFTER_MS = 30 * 86_400_000

export interface LeaseParts {
  redis: Redis
  calls: Calls
  name: SessionName
  holder: WorkerId
  leaseMs: number
  /** Steady clock, milliseconds, before the claim was sent. */
  sentMs: number
  /** The answer `claimed`. */
  reply: Reply
}

/** Keeps a session that was claimed. */
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
  const [due, dueMember] = [keys.due(name.backend), dueMemberOf(name)]
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

  /** Never rejects: what fails now is tried again, and a silent server ends the lease. */
  async function renew(): Promise<void> {
    const atMs = performance.now()
    try {
      const lease = [fence, holder, leaseMs, REMEMBER_MS]
      let [code, hasEntry] = await calls.script('renew', [session], lease)
      // The server lost its memory; what this holder knows is true as long as nobody else came.
      if (code === 'gone') [code, hasEntry] = await calls.script('restore', [session], lease)
      if (code === 'lost') return lose()
      if (hasEntry !== 1 && current !== null) await write(current)
      if (lost.signal.aborted || isReleased) return
      aliveUntilMs = atMs + leaseMs * 0.9
      clearTimeout(end)
      end = setTimeout(lose, aliveUntilMs - performance.now())
      end.unref()
      // It stands on another shard of a cluster, which may have lost it alone. The lease does not depend on that.
      if (current !== null)
        await calls.bounded(redis.zadd(due, 'NX', deadlineOf(current), dueMember), 'a session deadline')
    } catch (error) {
      if (isFenced(error)) lose()
    }
  }

  function assertHeld(): void {
    if (isReleased) throw new CofferdamError('fenced', 'The session was given back.')
    if (performance.now() > aliveUntilMs) lose()
    if (lost.signal.aborted) throw new CofferdamError('fenced', 'The session belongs to another worker now.')
  }

  /** When to look at it is written first: a holder that dies in between leaves a look too many, never one too few. */
  async function write(next: SessionEntry, written: SessionEntry | null = null): Promise<void> {
    const text = entryText(next)
    const deadlineMs = deadlineOf(next)
    // One that stands stays: the look at it may have been put off (`overdue`).
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
      const forgotten = current
      // Before it is gone there: no renewal puts it back.
      current = null
      await fenced('forget', [session, keys.tenant(name.tenantId)], [memberOf(name), REMEMBER_MS])
      if (forgotten === null) return
      // Harmless when it fails: the reaper finds nothing to end and drops it. Given up, it may happen when the next holder
      // has written its own deadline: that one stays.
      await calls.script('move-due', [due], [dueMember, deadlineOf(forgotten), '']).catch(() => {})
    },
    async [Symbol.asyncDispose]() {
      if (isReleased) return
      isReleased = true
      stop()
      await last
      // A server that is away: the lease runs out by itself.
      await calls.script('release', [session], [fence]).catch(() => {})
    },
  }
}

const isFenced = (error: unknown): boolean => isCofferdamError(error) && error.code === 'fenced'
