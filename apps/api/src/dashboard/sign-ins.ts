/**
 * Browsers that are signed in to the dashboard. A key or a code is exchanged once for a cookie, so no script
 * and no storage of the browser ever has a key.
 *
 *   code (10 min, once) ─┐
 *   API key ─────────────┴─► sign-in (12 h unused, 7 days at most) ─► the key, found again for each request
 *
 * Every request looks up the key of its sign-in, so revoking a key ends its sign-ins. This takes effect at
 * once in the process that revoked the key, and within the key cache's 5 s in all others. Redis keeps
 * sign-ins over restarts.
 */
import { CofferdamError } from '@cofferdam/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Redis } from 'ioredis'
import type { Caller, KeyCache } from '../key-cache.ts'
import { createKeptSecrets, type Kept } from './kept-secrets.ts'
import { requireOwnPage, requirePageHeader } from './own-page.ts'

/** `__Host-`: a browser takes it only with Secure, without Domain and for the whole host. */
const COOKIE = '__Host-cofferdam'
const COOKIE_RULES = { httpOnly: true, secure: true, sameSite: 'strict', path: '/' } as const

const HOUR_MS = 3_600_000
const IDLE_MS = 12 * HOUR_MS
const LONGEST_MS = 7 * 24 * HOUR_MS
const CODE_MS = 600_000
/**
 * How often a use is recorded in Redis, although a page asks every 2 s. A sign-in can therefore end up to
 * this much too early.
 */
const SEEN_MS = 60_000
/**
 * The most sign-ins, and the most unused codes, of one key. When a key gets one more, its oldest one ends.
 */
const MAX_SIGN_INS = 100
const MAX_CODES = 20

/** Who is signed in, and until when. */
export interface SignedIn {
  caller: Caller
  /** When the sign-in ends unless it is used again before, in milliseconds since the epoch. */
  untilMs: number
}

export interface SignIns {
  /** Who is signed in with the request's cookie. Null without a valid one. Throws as own-page.ts does. */
  find(request: FastifyRequest): Promise<SignedIn | null>
  /**
   * Signs a browser in with the key of `caller`. Ends the sign-in of the cookie that it had before, if any.
   */
  begin(request: FastifyRequest, reply: FastifyReply, caller: Caller): Promise<SignedIn>
  /** Ends the sign-in of the request's cookie, and removes the cookie. */
  end(request: FastifyRequest, reply: FastifyReply): Promise<void>
  /** Makes a code that signs in once for the key of `caller`. */
  makeCode(caller: Caller): Promise<{ code: string; untilMs: number }>
  /** ID of the key that a code signs in with. Does not use up the code. Null for an unknown or used one. */
  keyOfCode(code: string): Promise<string | null>
  /** Ends a code. Null when it is unknown, used, too old, or its key was revoked. */
  takeCode(code: string): Promise<Caller | null>
  /** Ends all sign-ins and codes of a revoked key. */
  forget(keyId: string): Promise<void>
}

/** Creates the sign-ins, which Redis stores. `publicUrl` is the address of the API behind a proxy. */
export function createSignIns(deps: {
  redis: Redis
  keys: Pick<KeyCache, 'find'>
  publicUrl: string | undefined
  now: () => number
}): SignIns {
  const { redis, keys, publicUrl, now } = deps
  const kept = createKeptSecrets(redis, { kind: 'sign-in', maxPerKey: MAX_SIGN_INS, longestMs: LONGEST_MS })
  const codes = createKeptSecrets(redis, { kind: 'code', maxPerKey: MAX_CODES, longestMs: CODE_MS })

  /** Records a use of the sign-in, at most once a minute. Returns the time at which the sign-in ends. */
  async function renewed(secret: string, found: Kept): Promise<number> {
    const seenMs = now() - found.seenMs >= SEEN_MS ? now() : found.seenMs
    const untilMs = endOf({ ...found, seenMs })
    if (seenMs !== found.seenMs) await kept.renew(secret, { ...found, seenMs }, untilMs - now())
    return untilMs
  }

  return {
    async find(request) {
      const secret = secretOf(request)
      if (secret === null) return null
      requireOwnPage(request, publicUrl)
      requirePageHeader(request)
      const found = await kept.read(secret)
      if (found === null || endOf(found) <= now()) return null
      const caller = await keys.find(found.keyId)
      if (caller === null) {
        await kept.end(secret)
        return null
      }
      return { caller: { ...caller, via: 'ui' }, untilMs: await renewed(secret, found) }
    },
    async begin(request, reply, caller) {
      const before = secretOf(request)
      if (before !== null) await kept.end(before)
      const nowMs = now()
      const secret = await kept.make(caller.keyId, nowMs, IDLE_MS)
      void reply.setCookie(COOKIE, secret, { ...COOKIE_RULES, maxAge: LONGEST_MS / 1000 })
      return { caller, untilMs: nowMs + IDLE_MS }
    },
    async end(request, reply) {
      const secret = secretOf(request)
      if (secret === null) return
      requireOwnPage(request, publicUrl)
      requirePageHeader(request)
      await kept.end(secret)
      void reply.clearCookie(COOKIE, COOKIE_RULES)
    },
    async makeCode({ keyId }) {
      const nowMs = now()
      return { code: await codes.make(keyId, nowMs, CODE_MS), untilMs: nowMs + CODE_MS }
    },
    keyOfCode: async (code) => (await codes.read(code))?.keyId ?? null,
    async takeCode(code) {
      const found = await codes.take(code)
      if (found === null || found.madeMs + CODE_MS <= now()) return null
      return await keys.find(found.keyId)
    },
    async forget(keyId) {
      await Promise.all([kept.endAll(keyId), codes.endAll(keyId)])
    },
  }
}

const endOf = ({ madeMs, seenMs }: Kept): number => Math.min(seenMs + IDLE_MS, madeMs + LONGEST_MS)

/** The value of our cookie. Null without one. */
function secretOf(request: FastifyRequest): string | null {
  const { cookie } = request.headers
  return cookie === undefined ? null : (request.server.parseCookie(cookie)[COOKIE] ?? null)
}

/** The error that a browser gets when it is not signed in. */
export const notSignedIn = (): CofferdamError =>
  new CofferdamError(
    'unauthenticated',
    'Nobody is signed in here, or no longer. Sign in with an API key, or with a link of cofferdam dashboard.',
  )
