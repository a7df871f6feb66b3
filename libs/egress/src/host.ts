/**
 * One spelling for every host. Whatever a program writes (decimal, octal, hex and short IPv4 forms,
 * full-width digits, percent escapes, IDN, trailing dots), the WHATWG host parser reads it once. Both the
 * decision and the connection use its result, so no second parser can read the text differently.
 */
import ipaddr from 'ipaddr.js'

export type Address = ipaddr.IPv4 | ipaddr.IPv6
export type Host =
  | { kind: 'name'; text: string }
  /** `text` has brackets when it is IPv6, as in a URL. */
  | { kind: 'address'; text: string; address: Address }

export interface Target {
  host: Host
  port: number
  /** `host:port`, as it is recorded and shown. */
  text: string
}

/** RFC 1035: 253 characters in text form, 63 in a label. `_` occurs in service names. */
const NAME =
  /^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*$/
/** The longest text that is parsed: 253 characters, each up to a percent-escaped sequence of 4 bytes. */
const MAX_AUTHORITY = 4096

/** The host that `text` names, IPv6 in brackets or bare. Null if it names none. */
export function parseHost(text: string): Host | null {
  const bare = text.includes(':') && !text.startsWith('[') ? `[${text}]` : text
  return parseAuthority(bare, 80)?.host ?? null
}

/** Parses `host` or `host:port`. Null for anything else (user names, backslashes, spaces, paths). */
export function parseAuthority(text: string, defaultPort: number): Target | null {
  // eslint-disable-next-line no-control-regex
  if (text.length > MAX_AUTHORITY || /[\u0000- \u007f@\\/?#]/.test(text)) return null
  if (!URL.canParse(`http://${text}/`)) return null
  const url = new URL(`http://${text}/`)
  // The parser drops port 80, the scheme's default. Only the text then shows whether a port was written.
  const written = /:(\d*)$/.exec(text.replace(/^.*\]/, ''))?.[1] ?? ''
  const port = url.port !== '' ? Number(url.port) : written === '' ? defaultPort : 80
  const host = canonicalHost(url.hostname)
  return host === null || port === 0 ? null : { host, port, text: `${host.text}:${port}` }
}

function canonicalHost(hostname: string): Host | null {
  if (hostname.startsWith('['))
    return { kind: 'address', text: hostname, address: ipaddr.parse(hostname.slice(1, -1)) }
  const name = hostname.replace(/\.$/, '')
  if (ipaddr.IPv4.isValidFourPartDecimal(name))
    return { kind: 'address', text: name, address: ipaddr.IPv4.parse(name) }
  return NAME.test(name) ? { kind: 'name', text: name } : null
}
