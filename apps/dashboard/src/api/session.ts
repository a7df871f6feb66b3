/** Who is signed in. The key itself is exchanged for a cookie that scripts cannot read. */
import { computed, signal } from '@preact/signals'
import { forgetDraft, keptDraft } from '../address/kept-draft.ts'
import { call, signedOut } from './call.ts'
import { asFailure, type Failure } from './failure.ts'

/** The answer of /ui/session. */
export interface Session {
  key_id: string
  scope: 'admin' | 'tenant'
  /** Null for an admin key. */
  tenant_id: string | null
  read_only: boolean
  expires_at: string
  /** The version of the API. */
  version: string
  /** Where Jaeger shows traces. Null for keys of tenants, and when the API has no address of Jaeger. */
  jaeger_url: string | null
}

/** Null when nobody is signed in. Undefined while that is not known yet. */
const current = signal<Session | null | undefined>(undefined)

/** The session. Null when nobody is signed in, undefined before the first answer. */
export const session = computed(() => (signedOut.value ? null : current.value))

/** Why it is unknown who is signed in, or why a link did not sign in. Otherwise null. */
export const sessionFailure = signal<Failure | null>(null)

/**
 * A link that was opened while another key is signed in. The person decides which key to use. Null when there
 * is no such link.
 */
export const otherLink = signal<{ code: string; message: string } | null>(null)

export const isAdmin = computed(() => session.value?.scope === 'admin')

/** Whether the key may change things. */
export const mayChange = computed(() => session.value?.read_only === false)

const accept = (found: Session): void => {
  current.value = found
  // Forgets what was typed under another key.
  keptDraft(found.key_id)
  signedOut.value = false
}

/** Takes the single-use code out of the address’s fragment, so that no history or bookmark keeps it. */
function takeCode(): string | null {
  const code = new URLSearchParams(window.location.hash.slice(1)).get('code')
  if (code !== null) window.history.replaceState(null, '', window.location.pathname + window.location.search)
  return code
}

/** Asks who is signed in, or signs in with the code of a link from `npm start` or `cofferdam dashboard`. */
export async function findSession(): Promise<void> {
  sessionFailure.value = null
  const code = takeCode()
  try {
    accept(
      code === null
        ? await call<Session>('GET', '/ui/session')
        : await call<Session>('POST', '/ui/session', { body: { code } }),
    )
  } catch (error) {
    const failure = asFailure(error)
    if (code !== null && failure.code === 'conflict') {
      otherLink.value = { code, message: failure.message }
      return findSession()
    }
    if (failure.status === 401) current.value = null
    if (failure.status !== 401 || code !== null) sessionFailure.value = failure
    if (code !== null) current.value = null
  }
}

/**
 * Signs in with a link and replaces the key that is signed in. Reloads the page, to drop all that was loaded
 * for the old key.
 */
export async function takeOtherLink(code: string): Promise<void> {
  await call<Session>('POST', '/ui/session', { body: { code, replace: true } })
  window.location.reload()
}

/** Signs in with an API key. Throws a Failure when it is refused. */
export async function signIn(apiKey: string): Promise<void> {
  accept(await call<Session>('POST', '/ui/session', { body: { api_key: apiKey } }))
  sessionFailure.value = null
}

/**
 * Signs out here and at the server. If the server does not answer, the cookie stays until the sign-in ends.
 */
export async function signOut(): Promise<void> {
  forgetDraft()
  await call<void>('DELETE', '/ui/session').catch(() => undefined)
  signedOut.value = true
}
