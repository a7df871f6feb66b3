/** Tokens by audience: asked for once, however many want one, renewed before they expire, and used to their end when that fails. */
import { CofferdamError, isCofferdamError, unlessAborted } from '@cofferdam/contract'
import type { AccessToken, Credential } from './credentials.ts'

/** The data plane's audience; a token for another is refused with 401. */
export const SESSIONS_AUDIENCE = 'https://dynamicsessions.io'

/** A renewed token is there before the old one ends, also when the first attempts fail. */
const RENEW_BEFORE_MS = 5 * 60_000
/** After a renewal that failed the old one is used so long before another try. */
const RETRY_MS = 30_000
/** No answer that was ever seen took longer; a hanging one must not hold up all who wait. */
const ASK_MS = 40_000

export interface Tokens {
  /** Rejects with `backend_unavailable` that says what each way answered, or the reason of `signal`. */
  get(audience: string, signal: AbortSignal): Promise<string>
  /** The service refused this one: the next `get` asks for another. */
  refused(audience: string, token: string): void
  /** Which way the last token came. */
  readonly answeredBy: Credential['name'] | null
}

interface Held {
  current: AccessToken | null
  asking: Promise<AccessToken> | null
  nextTryMs: number
}

/** Creates the cache in front of `credentials`, which are tried in order, the last that answered first. */
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
        // Nobody waits for a renewal while the old one is good.
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
