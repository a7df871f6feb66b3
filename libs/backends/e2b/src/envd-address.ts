/** How to reach the ports of a sandbox. A refused request (429) is sent again, any other is sent once. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'
import type { Created } from './control-api.ts'
import { isGatewayPage } from './gateway-page.ts'
import { pauseAfter } from './throttled.ts'

const ENVD_PORT = '49983'
const INTERPRETER_PORT = '49999'
/** Pause between checks. A starting service is ready after a few. */
const NOT_YET_MS = 100
/** Longest quote of an answer. */
const SAID_MAX = 300

export interface PortAddress {
  origin: string
  /** Headers that name the sandbox (for an origin that serves all sandboxes) and give access to the port. */
  headers: Record<string, string>
}

type Sandbox = Pick<Created, 'sandboxID' | 'envdAccessToken' | 'trafficAccessToken' | 'domain'>
interface Where {
  domain: string
  sandbox_url?: string | undefined
}

/**
 * Address of a sandbox's envd: its own host name, or one origin for all sandboxes, which routes by our
 * headers.
 */
export const envdAddress = (created: Sandbox, config: Where): PortAddress =>
  portAddress(created, config, ENVD_PORT)

/** Throws `sandbox_open_failed` if no code interpreter answers. */
export async function requireInterpreter(
  created: Sandbox,
  config: Where,
  signal: AbortSignal,
): Promise<void> {
  const address = portAddress(created, config, INTERPRETER_PORT)
  for (;;) {
    const response = await ask(address, '/health', { signal })
    await response.body?.cancel()
    if (response.ok) return
    // 503: the interpreter listens but is still starting.
    if (response.status !== 503)
      throw new CofferdamError('sandbox_open_failed', 'E2B: the template has no code interpreter.', {
        details: { status: response.status, reason: 'no_interpreter' },
      })
    await sleep(NOT_YET_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
  }
}

function portAddress(created: Sandbox, config: Where, port: string): PortAddress {
  const { sandboxID, envdAccessToken, trafficAccessToken } = created
  // The service leaves `domain` empty if it has only the default domain.
  const domain = created.domain || config.domain
  return {
    origin: config.sandbox_url ?? `https://${port}-${sandboxID}.${domain}`,
    headers: {
      'E2b-Sandbox-Id': sandboxID,
      'E2b-Sandbox-Port': port,
      ...(envdAccessToken ? { 'X-Access-Token': envdAccessToken } : {}),
      ...(trafficAccessToken ? { 'E2B-Traffic-Access-Token': trafficAccessToken } : {}),
    },
  }
}

/** Sends `init` with the address's headers added. Throws `sandbox_lost` for a gateway's page. */
export async function ask(
  address: PortAddress,
  path: string,
  init: Omit<RequestInit, 'headers' | 'signal'> & { headers?: Record<string, string>; signal: AbortSignal },
): Promise<Response> {
  const { signal } = init
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(new URL(path, address.origin), {
      ...init,
      headers: { ...address.headers, ...init.headers },
      redirect: 'error',
    })
    if (isGatewayPage(response)) {
      await response.body?.cancel()
      throw new CofferdamError('sandbox_lost', 'E2B: a gateway answered in place of the sandbox.')
    }
    const pauseMs = response.status === 429 ? pauseAfter(attempt, response.headers) : null
    if (pauseMs === null) return response
    await response.body?.cancel()
    await sleep(pauseMs, undefined, { signal }).catch(() => signal.throwIfAborted())
  }
}

/**
 * Discards the body of a 2xx answer. Throws for any other status: `sandbox_lost` for 404 and 502, else
 * `sandbox_open_failed`.
 */
export async function settled(address: PortAddress, response: Response): Promise<void> {
  if (response.ok) {
    await response.body?.cancel()
    return
  }
  const text = await response.text().catch(() => '')
  const tokens = ['X-Access-Token', 'E2B-Traffic-Access-Token'].flatMap((name) => address.headers[name] ?? [])
  const said = tokens.reduce((words, token) => words.replaceAll(token, '<token>'), text).slice(0, SAID_MAX)
  // The proxy answers 502 for a sandbox that is gone; envd itself never does.
  if (response.status === 502 || response.status === 404)
    throw new CofferdamError('sandbox_lost', 'E2B: the sandbox is gone.', { details: { said } })
  throw new CofferdamError('sandbox_open_failed', `E2B: envd answered ${response.status}.`, {
    details: { said },
  })
}
