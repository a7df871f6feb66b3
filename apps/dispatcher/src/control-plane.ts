/**
 * The calls to one environment’s control plane: with the environment key, and with the secret of a work item.
 */
import { readFile } from 'node:fs/promises'
import type { Anthropic } from '@anthropic-ai/sdk'
import type { BetaSelfHostedWork } from '@anthropic-ai/sdk/resources/beta/environments/work'
import { CofferdamError } from '@cofferdam/contract'
import type { Logger } from '@cofferdam/telemetry'
import { z } from 'zod'
import type { EnvironmentConfig } from './config.ts'

/** A claimed item. Only the answer to a poll has the secret. */
export type Item = Pick<BetaSelfHostedWork, 'id' | 'environment_id' | 'data'> & { secret?: string | null }

export interface ControlPlane {
  /**
   * A client that authenticates with the environment key. Only polling, acknowledging and stopping need that
   * key.
   */
  readonly client: Anthropic
  readonly key: string
  /** Waits up to a second for an item. Null without one. */
  poll(signal: AbortSignal): Promise<Item | null>
  ack(item: Item, signal: AbortSignal): Promise<void>
  stop(item: Item): Promise<void>
  /** Whether the answer to a heartbeat said that somebody stops the item. */
  isStopped(item: Item): boolean
  /** Calls `accepted` whenever a heartbeat of the item was accepted, until it is disposed. */
  onLease(item: Item, accepted: () => void): Disposable
  /** Calls `began` whenever an event stream of the session has begun, until it is disposed. */
  onStream(sessionId: string, began: () => void): Disposable
  ofItem(item: Item): SessionView
}

/** What can be asked about a session with the credential of its item. */
export interface SessionView {
  /** Whether it ended for good, or is not there any more. */
  isSessionOver(): Promise<boolean>
  /** Whether it waits for its user, and not for a tool or the model. */
  isTurnOver(): Promise<boolean>
}

/**
 * Calls `happened` after an accepted heartbeat of the item, or when an event stream of the session begins.
 */
interface Watch {
  id: string
  happened: () => void
}

const WATCHED = /\/work\/([^/]+)\/heartbeat(?:\?|$)|\/sessions\/([^/]+)\/events\/stream(?:\?|$)/

/** The longest that the API lets a poll wait (the SDK's work.ts: 1 to 999). */
const POLL_BLOCK_MS = 999
const KEY_BYTES = 4096
/**
 * These retries take about 15 s. The SDK stops an item whose session it cannot read, and the session would
 * then wait for ever. The SDK's default of 2 retries ends after 1.5 s.
 */
const RETRIES = 5

/** Reads the key file. Throws `config_invalid` if it has no key. */
export async function connectControlPlane(
  environment: EnvironmentConfig,
  workerId: string,
  logger: Logger,
): Promise<ControlPlane> {
  // Loaded only where an environment is served.
  const { Anthropic } = await import('@anthropic-ai/sdk')
  const { sessionsTokenFromSecret } = await import('@anthropic-ai/sdk/lib/environments/worker')
  const key = await readKey(environment.key_file)
  const stopped = new Set<string>()
  const watches = new Set<Watch>()
  const watch = (one: Watch): Disposable => {
    watches.add(one)
    return { [Symbol.dispose]: () => watches.delete(one) }
  }
  const client = new Anthropic({
    // The SDK ends an item both when it is stopped and when its lease is lost. Running calls must end only in
    // the first case, so this tells them apart.
    fetch: async (url, init) => {
      const response = await fetch(url, init)
      if (!response.ok) return response
      const [, ofItem, ofSession] = WATCHED.exec(urlOf(url)) ?? []
      if (ofItem !== undefined && (await isStopping(response))) stopped.add(ofItem)
      else for (const { id, happened } of watches) if (id === (ofItem ?? ofSession)) happened()
      return response
    },
    baseURL: environment.base_url,
    authToken: key,
    // Otherwise the SDK takes ANTHROPIC_API_KEY from this process.
    apiKey: null,
    defaultHeaders: environment.headers,
    maxRetries: RETRIES,
    logLevel: 'warn',
    logger: forSdk(logger, environment.id),
  })
  const headers = { [environment.worker_id_header]: workerId }
  const { work } = client.beta.environments
  return {
    client,
    key,
    // The SDK must not retry here, because the poll loop pauses between failures itself.
    poll: (signal) =>
      work.poll(environment.id, { block_ms: POLL_BLOCK_MS }, { headers, signal, maxRetries: 0 }),
    async ack({ id }, signal) {
      await work.ack(id, { environment_id: environment.id }, { headers, signal })
    },
    async stop({ id }) {
      await work.stop(id, { environment_id: environment.id, force: true }, { headers })
    },
    isStopped: ({ id }) => stopped.has(id),
    onLease: ({ id }, happened) => watch({ id, happened }),
    onStream: (id, happened) => watch({ id, happened }),
    ofItem: (item) =>
      viewOf(client.withOptions({ authToken: sessionsTokenFromSecret(item.secret) ?? key }), item.data.id),
  }
}

const urlOf = (url: string | URL | Request): string =>
  url instanceof Request ? url.url : url instanceof URL ? url.href : url

/**
 * Whether the answer to a heartbeat says that the item is stopped. Reads a copy, before the SDK sees the
 * answer.
 */
async function isStopping(response: Response): Promise<boolean> {
  const answer: unknown = await response
    .clone()
    .json()
    .catch(() => null)
  const { success, data } = heartbeatSchema.safeParse(answer)
  return success && (data.state === 'stopping' || data.state === 'stopped')
}

const heartbeatSchema = z.object({ state: z.string() })

function viewOf(client: Anthropic, sessionId: string): SessionView {
  return {
    async isSessionOver() {
      try {
        return (await client.beta.sessions.retrieve(sessionId)).status === 'terminated'
      } catch (error) {
        // Any other error tells nothing. The sandbox is then kept for the next item.
        return isNotFound(error)
      }
    },
    async isTurnOver() {
      try {
        const { data } = await client.beta.sessions.events.list(sessionId, { order: 'desc', limit: 1 })
        const [last] = data
        return last?.type === 'session.status_idle' && last.stop_reason.type !== 'requires_action'
      } catch {
        return false
      }
    },
  }
}

const isNotFound = (error: unknown): boolean =>
  error instanceof Error && 'status' in error && error.status === 404

/** Reads a file with one key. Throws `config_invalid` without one. */
export async function readKey(path: string): Promise<string> {
  const text = (await readFile(path, 'utf8').catch(() => '')).trim()
  if (text !== '' && text.length <= KEY_BYTES && !/\s/.test(text)) return text
  throw new CofferdamError('config_invalid', `${path} has no key: expected one line of text.`)
}

/** The SDK logs a text and facts, which name sessions and items and never a credential. */
function forSdk(logger: Logger, environmentId: string) {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (message: string, ...facts: unknown[]) =>
      logger[level]({ environment_id: environmentId, facts }, message)
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
