/**
 * The three credentials of Managed Agents, and what each may do. Sources: the endpoint descriptions in the
 * SDK's resources/beta/environments/work.ts (retrieve, update and list name the credentials they accept and
 * reject), `BetaWorkSecret` there, and lib/environments/worker.ts (memory stores reject the environment key).
 */
import type { IncomingHttpHeaders } from 'node:http'
import { newSecret } from './stamps-and-ids.ts'
import { forbidden, unauthenticated } from './wire-errors.ts'

export type CredentialKind = 'api_key' | 'environment_key' | 'item_secret'

export interface Credential {
  kind: CredentialKind
  /** Set in an environment key and in an item's token. */
  environmentId?: string
  /** Set in an item's token. */
  itemId?: string
  /** Set in the token of a session's item, not of a healthcheck's. */
  sessionId?: string
}

const PREFIXES: Record<CredentialKind, string> = {
  api_key: 'sk-ant-api03-',
  environment_key: 'sk-ant-oat01-',
  item_secret: 'sk-ant-req-',
}

export class Keyring {
  readonly #known = new Map<string, Credential>()

  /** Makes a new credential and returns its text. */
  issue(credential: Credential): string {
    const text = newSecret(PREFIXES[credential.kind])
    this.#known.set(text, credential)
    return text
  }

  /** Makes every token of an item invalid, as if its time were over. */
  revokeItem(itemId: string): void {
    for (const [text, { itemId: of }] of this.#known) if (of === itemId) this.#known.delete(text)
  }

  /**
   * Who makes this request. Throws a 401 if there is no credential, an unknown one, or two different ones.
   * Also throws it if `x-api-key` has another kind than an API key: the other two kinds are bearer tokens.
   */
  identify(headers: IncomingHttpHeaders): Credential {
    const bearer = /^bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1]
    const plain = headers['x-api-key']
    if (headers.authorization !== undefined && bearer === undefined)
      throw unauthenticated('Authorization: expected a bearer token')
    if (bearer === undefined && typeof plain !== 'string')
      throw unauthenticated('a credential is required: Authorization: Bearer, or x-api-key')
    if (bearer !== undefined && plain !== undefined && bearer !== plain)
      throw unauthenticated('Authorization and x-api-key hold different credentials')
    const found = this.#known.get(bearer ?? String(plain))
    if (found === undefined)
      throw unauthenticated(bearer === undefined ? 'invalid x-api-key' : 'invalid bearer token')
    if (found.kind !== 'api_key' && bearer === undefined)
      throw unauthenticated('x-api-key takes an API key. This credential is a bearer token')
    return found
  }
}

/** What a call is about. If the credential has one of these IDs, too, the two must be the same. */
export interface Target {
  environmentId?: string
  itemId?: string
  sessionId?: string
}

/** Throws a 403 if the credential is of the wrong kind, or bound to something else. */
export function authorize(credential: Credential, takes: readonly CredentialKind[], target: Target): void {
  if (!takes.includes(credential.kind))
    throw forbidden(`this endpoint does not accept ${NAMES[credential.kind]}`)
  for (const bound of BOUND)
    if (credential[bound] !== undefined && target[bound] !== undefined && credential[bound] !== target[bound])
      throw forbidden(`${NAMES[credential.kind]} does not belong to this ${WORDS[bound]}`)
  // The token of a healthcheck is bound to no session, so it reaches none.
  if (
    credential.kind === 'item_secret' &&
    credential.sessionId === undefined &&
    target.sessionId !== undefined
  )
    throw forbidden('this work item has no session')
}

const BOUND = ['environmentId', 'itemId', 'sessionId'] as const
const WORDS = { environmentId: 'environment', itemId: 'work item', sessionId: 'session' } as const
const NAMES: Record<CredentialKind, string> = {
  api_key: 'an API key',
  environment_key: 'the environment key',
  item_secret: 'the work item’s token',
}

/** The `secret` of a poll's answer: base64url of JSON, without padding (`BetaWorkSecret`). */
export const packSecret = (token: string): string =>
  Buffer.from(JSON.stringify({ sessions_token: token })).toString('base64url')
