/**
 * Keeps web pages away. A page may rebind its DNS name to the address of this server and then counts as the
 * same origin. It has no API key, so this is a second wall, which the protocol asks for.
 */
import { CofferdamError } from '@cofferdam/contract'
import type { FastifyRequest } from 'fastify'

const LOOPBACK_NAME = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/i
const LOOPBACK_ADDRESS = /^(127\.|::1$|::ffff:127\.)/

/**
 * Throws `forbidden` for a foreign `Origin`, and on a loopback connection for a `Host` that is neither a
 * loopback name nor that of `publicUrl`, the address under which clients reach the API.
 */
export function requireAllowedOrigin(request: FastifyRequest, publicUrl: string | undefined): void {
  const publicName = publicUrl === undefined ? null : new URL(publicUrl).hostname.toLowerCase()
  const isOurs = (name: string | null): boolean =>
    name !== null && (LOOPBACK_NAME.test(name) || name === publicName)
  const { host, origin } = request.headers
  const isLocal = LOOPBACK_ADDRESS.test(request.socket.localAddress ?? '')
  if ((isLocal || publicName !== null) && !isOurs(nameOf(`http://${host ?? ''}`)))
    throw new CofferdamError(
      'forbidden',
      'The Host header does not name this server. Operators: set COFFERDAM_PUBLIC_URL to the address that ' +
        'clients use.',
    )
  if (origin !== undefined && !isOurs(nameOf(origin)))
    throw new CofferdamError('forbidden', 'Web pages of other origins may not use this MCP server.')
}

/** The host name of a URL in lower case. Null for `null` and other text that is no URL. */
const nameOf = (url: string): string | null => URL.parse(url)?.hostname.toLowerCase() ?? null
