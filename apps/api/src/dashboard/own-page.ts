/**
 * Tells requests of the dashboard from those that another page makes a browser send. The cookie is
 * SameSite=Strict, so a browser does not send it with requests that come from another site. That is not
 * enough, because a page on another port of this machine belongs to the same site. The checks here require
 * the same origin.
 */
import { CofferdamError } from '@cofferdam/contract'
import type { FastifyRequest } from 'fastify'

const LOOPBACK_NAME = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/i

/** The header that a page of another origin cannot send without a preflight, which the API does not grant. */
export const PAGE_HEADER = 'x-cofferdam-ui'

/**
 * Throws `forbidden` unless a page of our own origin sent the request: by `Sec-Fetch-Site`, or by `Origin`
 * where a browser sends only that. `publicUrl` is the address of the API behind a proxy.
 */
export function requireOwnPage(request: FastifyRequest, publicUrl: string | undefined): void {
  const { 'sec-fetch-site': site, origin } = request.headers
  const isOurs =
    site === undefined
      ? origin !== undefined && isOwnOrigin(request, origin, publicUrl)
      : site === 'same-origin'
  if (!isOurs)
    throw new CofferdamError(
      'forbidden',
      'The cookie of the dashboard counts only for requests of the dashboard itself. This one came from ' +
        'another page, or does not say from where. Programs send Authorization: Bearer and an API key.',
    )
}

/** Throws `forbidden` when a request that may change something lacks the dashboard's header. */
export function requirePageHeader({ method, headers }: FastifyRequest): void {
  if (method === 'GET' || method === 'HEAD' || headers[PAGE_HEADER] === '1') return
  throw new CofferdamError('forbidden', `A request with the cookie of the dashboard needs ${PAGE_HEADER}: 1.`)
}

/**
 * Throws `forbidden` when a page of another origin tries to sign the browser in. The person would then work
 * with somebody else's key. A program that is no browser sends neither header and is let through.
 */
export function refuseForeignPage(request: FastifyRequest, publicUrl: string | undefined): void {
  const { 'sec-fetch-site': site, origin } = request.headers
  if (site !== undefined || origin !== undefined) requireOwnPage(request, publicUrl)
}

/**
 * Throws `forbidden` where the cookie would cross a network in clear text. A browser's `Origin` has the
 * scheme and the host that the browser used. A caller that sends a false `Origin` harms only itself.
 */
export function requireSafeTransport(request: FastifyRequest, publicUrl: string | undefined): void {
  const { origin, host = '', 'x-forwarded-proto': forwarded } = request.headers
  const seen = URL.parse(origin ?? `http://${host}`)
  const ours = URL.parse(publicUrl ?? '')
  const isSafe =
    seen !== null &&
    (seen.protocol === 'https:' ||
      LOOPBACK_NAME.test(seen.hostname) ||
      (origin === undefined &&
        (forwarded === 'https' || (ours?.protocol === 'https:' && ours.host === seen.host))))
  if (!isSafe)
    throw new CofferdamError(
      'forbidden',
      'The dashboard signs in over https, or on this machine (http://127.0.0.1, http://localhost). In clear ' +
        'text, everybody on the network could read the key and the cookie. Operators: put TLS in front of ' +
        'the API and set COFFERDAM_PUBLIC_URL. Until then: ssh -L 7070:127.0.0.1:7070 HOST, and open ' +
        'http://127.0.0.1:7070.',
    )
}

/** Whether `origin` is that of the address which the browser used. */
function isOwnOrigin({ headers }: FastifyRequest, origin: string, publicUrl: string | undefined): boolean {
  const seen = URL.parse(origin)
  const used = URL.parse(`http://${headers.host ?? ''}`)
  if (seen === null) return false
  if (publicUrl !== undefined && seen.origin === new URL(publicUrl).origin) return true
  // A page that came in clear text over a network may have been changed on its way.
  const isSafe = seen.protocol === 'https:' || LOOPBACK_NAME.test(seen.hostname)
  // Parses `Host` with the scheme of `Origin`, so that `URL` removes the default port of that scheme from
  // both.
  return (
    isSafe && used !== null && URL.parse(`${seen.protocol}//${headers.host ?? ''}`)?.origin === seen.origin
  )
}
