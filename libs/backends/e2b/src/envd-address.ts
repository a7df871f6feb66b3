/** How the ports of one sandbox are reached, and what is sent to them: a refusal (429) is sent again, everything else once. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'
import type { Created } from './control-api.ts'
import { isGatewayPage } from './gateway-page.ts'
import { pauseAfter } from './throttled.ts'

const ENVD_PORT = '49983'
const INTERPRETER_PORT = '49999'
/** A service that starts is ready within some of these. */
const NOT_YET_MS = 100
/** Of an answer that is quoted. */
const SAID_MAX = 300

/** One port of a sandbox. */
export interface PortAddress {
  origin: string
  /** They route where one origin serves all sandboxes, and open the port. */
  headers: Record<string, string>
}

type Sandbox = Pick<Created, 'sandboxID' | 'envdAccessToken' | 'trafficAccessToken' | 'domain'>
interface Where {
  domain: string
  sandbox_url?: string | undefined
}

/** Where envd of a sandbox listens: a host name of its own, or one origin for all, which routes by our headers. */
export const envdAddress = (created: Sandbox, config: Where): PortAddress =>
  portAddress(created, config, ENVD_PORT)

/** Throws `sandbox_open_failed` when nothing answers as the code interpreter does. */
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
    // It listens, and waits for what it is opened with.
    if (response.status !== 503)
      throw new CofferdamError('sandbox_open_failed', 'E2B: the template has no code interpreter.', {
        details: { status: response.status, reason: 'no_interpreter' },
      })
    await sleep(NOT_YET_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
  }
}

function portAddress(created: Sandbox, config: Where, port: string): PortAddress {
  const { sandboxID, envdAccessToken, trafficAccessToken } = created
  // It is empty where a service has no other domain to tell.
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

/** Sends `init`, whose headers come on top of the address's. Throws `sandbox_lost` for a page of somebody else's. */
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

/** Reads the answer's end, so that its connection can be used again; throws for all but 2xx. */
export async function settled(address: PortAddress, response: Response): Promise<void> {
  if (response.ok) {
    await response.body?.cancel()
    return
  }
  const text = await response.text().catch(() => '')
  const tokens = ['X-Access-Token', 'E2B-Traffic-Access-Token'].flatMap((name) => address.headers[name] ?? [])
  const said = tokens.reduce((words, token) => words.replaceAll(token, '<token>'), text).slice(0, SAID_MAX)
  // The proxy before a sandbox that is gone says 502; envd itself never does.
  if (response.status === 502 || response.status === 404)
    throw new CofferdamError('sandbox_lost', 'E2B: the sandbox is gone.', { details: { said } })
  throw new CofferdamError('sandbox_open_failed', `E2B: envd answered ${response.status}.`, {
    details: { said },
  })
}
