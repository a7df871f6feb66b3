/**
 * The registry: claims of sessions, and ways to read them. session-registry.ts of the contract has the
 * promises. It relies on one Lua script per change of a session, the server's clock for leases, and fences
 * that only rise. A session's deadline is also listed under its backend, written before its entry. Readers
 * check each listed session against its entry, so a stale line is harmless.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  CofferdamError,
  type SessionEntry,
  type SessionInfo,
  type SessionName,
  type SessionRegistry,
  type WorkerId,
} from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { keys, memberOf, nameOfDueMember, nameOfMember } from './keys.ts'
import { createLease, REMEMBER_MS } from './lease.ts'
import { createCalls } from './scripts.ts'
import { deadlineOf, entryText, readSession, serverNowMs } from './session-record.ts'

/** A dead worker's sessions are free after this time. */
const LEASE_MS = 15_000
/** A third of the lease. A slower call could not renew in time. */
const TIMEOUT_MS = 5_000
/** A claim of a held session is retried after 10 ms, then less often, but at least 4 times a second. */
const FIRST_ASK_MS = 10
const LAST_ASK_MS = 250
/** Sessions per page of a tenant's list: about 1 MiB of replies. */
const PAGE = 500
/**
 * `overdue` reads this many lines for each session that it may return, because some are held or have a later
 * deadline.
 */
const LOOK_AHEAD = 4
/** `overdue` returns a session again when its time overdue has doubled, but at the latest after this time. */
const LONGEST_PAUSE_MS = 600_000
/** How long a worker's announcement of its session is shown: three announcement periods. */
export const SHOWN_MS = 60_000

export interface SessionsDeps {
  /** Any connection of role worker or producer. The registry does not close it. */
  redis: Redis
  /** Default 15,000. */
  leaseMs?: number
  /** Timeout of one call (`queue_unavailable`). Default 5,000, at most a third of the lease. */
  timeoutMs?: number
}

export interface Sessions extends SessionRegistry {
  /**
   * Lists a session whose sandbox only `owner` reaches, for a minute. Null removes it from the list. Claims
   * nothing. Throws `queue_unavailable`.
   */
  announce(
    name: SessionName,
    owner: WorkerId,
    state: { entry: SessionEntry; isBusy: boolean } | null,
  ): Promise<void>
}

export function createSessionRegistry(deps: SessionsDeps): Sessions {
  const { redis, leaseMs = LEASE_MS } = deps
  const calls = createCalls(redis, Math.min(deps.timeoutMs ?? TIMEOUT_MS, leaseMs / 3))

  /**
   * How long `overdue` leaves out a session that it has returned, so that other sessions come first if this
   * one cannot be ended. At least one lease, because a worker may have died while it held the session to end
   * it.
   */
  const pauseAfter = (overdueMs: number): number => Math.min(Math.max(leaseMs, overdueMs), LONGEST_PAUSE_MS)

  async function tryClaim(name: SessionName, holder: WorkerId) {
    const sentMs = performance.now()
    const session = keys.session(name)
    const reply = await calls.script('claim', [session], [holder, leaseMs, REMEMBER_MS], (late) => {
      if (late[0] === 'claimed') calls.script('release', [session], [late[1] ?? 0]).catch(() => {})
    })
    if (reply[0] === 'held') return null
    return createLease({ redis, calls, name, holder, leaseMs, sentMs, reply })
  }

  return {
    async claim(name, holder, { waitMs, signal }) {
      const endMs = performance.now() + waitMs
      for (let pause = FIRST_ASK_MS; ; pause = Math.min(pause * 2, LAST_ASK_MS)) {
        signal.throwIfAborted()
        const lease = await tryClaim(name, holder)
        if (lease !== null && signal.aborted) await lease[Symbol.asyncDispose]()
        signal.throwIfAborted()
        if (lease !== null) return lease
        const leftMs = endMs - performance.now()
        if (leftMs <= 0)
          throw new CofferdamError(
            'conflict',
            `The session ${name.key} is in use. Try again when it is idle.`,
          )
        await sleep(Math.min(pause, leftMs), undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    },

    async find(name) {
      return (await readSession(redis, calls, name, await serverNowMs(redis, calls))).info
    },

    async list(tenantId, cursor) {
      const nowMs = await serverNowMs(redis, calls)
      const members = await pageOf(tenantId, cursor)
      const page = members.slice(0, PAGE)
      const found = await Promise.all(
        page.map(async ({ member }) => {
          const name = nameOfMember(tenantId, member)
          const { info, isForeign } = await readSession(redis, calls, name, nowMs)
          if (info === null && !isForeign)
            await calls.script('prune', [keys.session(name), keys.tenant(tenantId)], [member])
          return info
        }),
      )
      const last = page.at(-1)
      return {
        sessions: found.filter((info): info is SessionInfo => info !== null),
        cursor: members.length > PAGE && last !== undefined ? `${last.score}:${last.member}` : null,
      }
    },

    async overdue(backend, limit) {
      const due = keys.due(redis, backend)
      const nowMs = await serverNowMs(redis, calls)
      const looked = await calls.bounded(
        redis.zrangebyscore(due, '-inf', nowMs, 'WITHSCORES', 'LIMIT', 0, limit * LOOK_AHEAD),
        'sessions that are due',
      )
      const found = await Promise.all(
        pairs(looked).map(async ({ member, score }) => {
          const name = nameOfDueMember(backend, member)
          const { info, isForeign, heldUntilMs } = await readSession(redis, calls, name, nowMs)
          if (isForeign) return null
          const deadlineMs = info === null ? null : deadlineOf(info)
          if (heldUntilMs === null && deadlineMs !== null && deadlineMs <= nowMs)
            return { name, line: [member, score, nowMs + pauseAfter(nowMs - deadlineMs)] }
          // The session's holder may be writing the entry now, so check the session again when its lease has
          // ended.
          await calls.script('move-due', [due], [member, score, heldUntilMs ?? deadlineMs ?? ''])
          return null
        }),
      )
      const named = found.filter((one) => one !== null).slice(0, limit)
      await Promise.all(named.map(({ line }) => calls.script('move-due', [due], line)))
      return named.map(({ name }) => name)
    },

    async *entries(backend) {
      const nowMs = await serverNowMs(redis, calls)
      let cursor = '0'
      do {
        // A scan returns every member that exists throughout, even if its deadline moves.
        const scanned = redis.zscan(keys.due(redis, backend), cursor, 'COUNT', PAGE)
        const [next, lines] = await calls.bounded(scanned, 'sessions of a backend')
        const names = pairs(lines).map(({ member }) => nameOfDueMember(backend, member))
        const read = names.map(async (name) => await readSession(redis, calls, name, nowMs))
        for (const { info, isForeign } of await Promise.all(read)) {
          if (isForeign) throw new CofferdamError('internal', 'A session has an entry of another release.')
          if (info !== null) yield info
        }
        cursor = next
      } while (cursor !== '0')
    },

    async announce(name, owner, state) {
      const scriptKeys = [keys.session(name), keys.tenant(name.tenantId)]
      const text = state === null ? '' : entryText(state.entry)
      const madeAtMs = state?.entry.createdAtMs ?? 0
      const busy = state?.isBusy === true ? '1' : '0'
      await calls.script('announce', scriptKeys, [owner, text, busy, memberOf(name), madeAtMs, SHOWN_MS])
    },
  }

  /** Up to a page plus one line, newest first. The cursor names the last line of the previous page. */
  async function pageOf(tenantId: string, cursor: string | undefined) {
    const colon = cursor?.indexOf(':') ?? -1
    const from = cursor === undefined ? '+inf' : cursor.slice(0, colon)
    if (cursor !== undefined && (colon < 1 || !/^\d+$/.test(from)))
      throw new CofferdamError('invalid_request', 'The cursor is not one of ours.')
    const after = cursor?.slice(colon + 1)
    // Lines with the cursor's own millisecond are read again and filtered out. The limit has room for a page
    // of them, and no tenant creates so many sessions in one millisecond.
    const lines = await calls.bounded(
      redis.zrevrangebyscore(keys.tenant(tenantId), from, '-inf', 'WITHSCORES', 'LIMIT', 0, 2 * PAGE + 1),
      'sessions of a tenant',
    )
    const isBefore = ({ member, score }: { member: string; score: string }) =>
      after === undefined || score !== from || member < after
    return pairs(lines)
      .filter(isBefore)
      .slice(0, PAGE + 1)
  }
}

/** Members with their scores, from the flat answer of WITHSCORES. */
function pairs(flat: readonly string[]): { member: string; score: string }[] {
  return Array.from({ length: flat.length / 2 }, (_, at) => ({
    member: flat[2 * at] ?? '',
    score: flat[2 * at + 1] ?? '',
  }))
}
