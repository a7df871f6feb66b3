/**
 * Caches tokens by audience. Concurrent callers share one request. A token is renewed before it expires, and
 * used to its end if the renewal fails.
 */
import { CofferdamError, isCofferdamError, unlessAborted } from '@cofferdam/contract'
import type { AccessToken, Credential } from './credentials.ts'

/** The audience of the data plane. The pool refuses a token for another with 401. */
export const SESSIONS_AUDIENCE = 'https://dynamicsessions.io'

/** Renews this long before a token expires, so that there is time for several tries. */
const RENEW_BEFORE_MS = 5 * 60_000
/** The pause after a failed renewal. */
const RETRY_MS = 30_000
/** Longer than any answer seen. A request that hangs must not block all callers. */
const ASK_MS = 40_000

export interface Tokens {
  /** Rejects with `backend_unavailable` and what each credential answered, or the reason of `signal`. */
  get(audience: string, signal: AbortSignal): Promise<string>
  /** Reports that the service refused this token. The next `get` requests another. */
  refused(audience: string, token: string): void
  /** The credential that gave the last token. */
  readonly answeredBy: Credential['name'] | null
}

interface Held {
  current: AccessToken | null
  asking: Promise<AccessToken> | null
  nextTryMs: number
}

/** Creates the cache. Tries `credentials` in order, but first the one that last succeeded. */
export function createTokens(credentials: readonly Credential[], nowMs: () => number = Date.now): Tokens {
  const held = new Map<string, Held>()
  let answeredBy: Credential['name'] | null = null

  async function ask(audience: string): Promise<AccessToken> {
    const signal = AbortSignal.timeout(ASK_MS)
    const said: string[] = []
    const first = credentials.find(({ name }) => name === answeredBy)
    const inOrder = first === undefined ? credentials : [first, ...credentials.filter((one) => one !== first)]
    for (const credential of inOrder) {
      try {
        const token = await credential.token(audience, signal)
        if (token !== null) {
          answeredBy = credential.name
          return token
        }
        said.push(`${credential.name}: not set up`)
      } catch (error) {
        said.push(isCofferdamError(error) ? error.message : `${credential.name}: does not answer`)
      }
    }
    throw new CofferdamError('backend_unavailable', `Azure: no credential gave a token (${said.join('; ')}).`)
  }

  function asked(audience: string, entry: Held): Promise<AccessToken> {
    entry.asking ??= ask(audience)
      .then((token) => {
        entry.current = token
        return token
      })
      .catch((error: unknown) => {
        entry.nextTryMs = nowMs() + RETRY_MS
        throw error
      })
      .finally(() => {
        entry.asking = null
      })
    return entry.asking
  }

  return {
    get answeredBy() {
      return answeredBy
    },
    async get(audience, signal) {
      signal.throwIfAborted()
      const entry = held.get(audience) ?? { current: null, asking: null, nextTryMs: 0 }
      held.set(audience, entry)
      const { current } = entry
      if (current !== null && nowMs() < current.expiresAtMs) {
        const isOld = nowMs() >= current.expiresAtMs - RENEW_BEFORE_MS
        // Callers do not wait for a renewal while the old token is valid.
        if (isOld && nowMs() >= entry.nextTryMs) asked(audience, entry).catch(() => undefined)
        return current.token
      }
      const given = asked(audience, entry)
      return (await unlessAborted(given, signal)).token
    },
    refused(audience, token) {
      const entry = held.get(audience)
      if (entry?.current?.token === token) entry.current = null
    },
  }
}
