/** The link that signs a browser in to the dashboard: once, within ten minutes. */
import { z } from 'zod'
import type { ApiConnection } from './api-connection.ts'
import type { Terminal } from './terminal.ts'

const codeSchema = z.object({ code: z.string(), expires_at: z.string() })

export interface DashboardLink {
  link: string
  /** When the link expires, if nobody has used it. */
  expiresAt: string
}

/**
 * Makes a link for the key of `api`. The code is in the fragment, which a browser sends to nobody: it is in
 * no log of a server or proxy and in no Referer. `address` is where browsers reach the API, by default
 * `api.url`.
 */
export async function makeDashboardLink(api: ApiConnection, address = api.url): Promise<DashboardLink> {
  const { code, expires_at } = await api.ask(codeSchema, 'POST', '/ui/codes')
  const url = new URL(address)
  // An API that listens everywhere is reached here under the loopback address.
  if (url.hostname === '0.0.0.0' || url.hostname === '[::]') url.hostname = '127.0.0.1'
  return { link: `${url.origin}/#code=${code}`, expiresAt: expires_at }
}

/** Shows a new link among the lines that `up` prints for a person. */
export async function showDashboardLink(
  terminal: Terminal,
  api: ApiConnection,
  address?: string,
): Promise<void> {
  const { link } = await makeDashboardLink(api, address)
  terminal.line(`${terminal.style('bold', 'Dashboard')}  ${link}`)
  terminal.line('           (signs in once, within 10 minutes; npx cofferdam dashboard prints another)')
}
