/**
 * Shapes of credentials that are redacted whatever their value: hand-written matchers over bytes, each
 * anchored at a literal and linear in what it reads, so no output can make them backtrack. A matcher decides
 * within WINDOW bytes of its anchor. Its `tail` covers what follows a confirmed match without holding it
 * back.
 */
import { ALNUM, DIGIT, HEX, TOKEN, UPPER_DIGIT, byteClass, has, type ByteClass } from './byte-class.ts'

/** The most that is ever held back. */
export const WINDOW = 8192

/** Bytes `from` to `to` are secret, and so are the following `tail` bytes, up to `limit`. */
export interface Match {
  from: number
  to: number
  tail: ByteClass | null
  limit: number
  /** Set if this ends a private key that is being redacted, and does not begin a new match. */
  closesKey?: boolean
}

/** `more`: the answer depends on bytes that have not come. Never returned when `final`. */
export type Finding = Match | 'more' | null

export interface SecretPattern {
  /** At least three bytes. Lower case when `ignoreCase`. */
  anchor: string
  ignoreCase?: boolean
  /** Looks at `bytes` where the anchor begins at `at`. `end` is where the bytes end so far. */
  match(bytes: Uint8Array, at: number, end: number, final: boolean): Finding
}

interface TokenShape {
  body: ByteClass
  /** Least number of bytes of `body` that must follow the anchor in a token. */
  min: number
  /** A token must contain a member of this class, which words lack. */
  needs?: ByteClass
  /**
   * Match only if no token character precedes. Distinguishes `sk-…` from `task-…`, and keeps matching linear.
   */
  atBoundary?: boolean
}

function token(anchor: string, shape: TokenShape): SecretPattern {
  return {
    anchor,
    match(bytes, at, end, final) {
      if (shape.atBoundary === true && !isBoundary(bytes, at)) return null
      return tokenRun(bytes, at, at + anchor.length, end, final, shape)
    },
  }
}

/** Matches from `from` if at least `min` bytes of `body` follow at `bodyAt`, one of them in `needs`. */
function tokenRun(
  bytes: Uint8Array,
  from: number,
  bodyAt: number,
  end: number,
  final: boolean,
  { body, min, needs }: TokenShape,
): Finding {
  const stop = Math.min(end, from + WINDOW)
  let satisfied = needs === undefined
  let at = bodyAt
  for (; at < stop && has(body, bytes[at]); at++) {
    satisfied ||= needs !== undefined && has(needs, bytes[at])
    if (satisfied && at + 1 - bodyAt >= min) return { from, to: at + 1, tail: body, limit: Infinity }
  }
  return at === end && at < from + WINDOW && !final ? 'more' : null
}

/**
 * True when no token character precedes. `\n`, `\t` and `\r` as escapes in quoted text, and percent codes
 * such as `%20`, do not count as token characters.
 */
function isBoundary(bytes: Uint8Array, at: number): boolean {
  const previous = bytes[at - 1]
  if (!has(TOKEN, previous)) return true
  const before = bytes[at - 2]
  if (before === 0x5c /* \ */) return previous === 0x6e || previous === 0x74 || previous === 0x72
  return has(HEX, previous) && has(HEX, before) && bytes[at - 3] === 0x25 /* % */
}

const JWT_TAIL = byteClass(['AZ', 'az', '09'], '_-.')

/** Three dotted segments, the first one base64 of `{"…`. The shortest real header has 20 characters. */
const jwt: SecretPattern = {
  anchor: 'eyJ',
  match(bytes, at, end, final) {
    if (!isBoundary(bytes, at)) return null
    const stop = Math.min(end, at + WINDOW)
    let cursor = at
    for (const [segment, min] of [16, 4, 16].entries()) {
      const from = cursor
      while (cursor < stop && has(TOKEN, bytes[cursor])) {
        cursor += 1
        if (segment === 2 && cursor - from >= min)
          return { from: at, to: cursor, tail: JWT_TAIL, limit: Infinity }
      }
      // The token is longer than 8 KiB. After one complete segment it counts as a token, whatever follows.
      if (cursor === at + WINDOW)
        return segment === 0 ? null : { from: at, to: cursor, tail: JWT_TAIL, limit: Infinity }
      if (cursor === end) return final ? null : 'more'
      if (cursor - from < min || bytes[cursor] !== 0x2e /* . */) return null
      cursor += 1
    }
    return cursor === end && !final ? 'more' : null
  },
}

const CREDENTIAL = byteClass(['AZ', 'az', '09'], '._~+/=-')
const SPACE = byteClass([], ' \t')
const SEPARATOR = byteClass([], ' \t"\'`\\:=')

/** `Authorization: Bearer …` as a header, in JSON or in a dict. Only the credential is covered. */
const authorization: SecretPattern = {
  anchor: 'authorization',
  ignoreCase: true,
  match(bytes, at, end, final) {
    // At most 12 separators. `":  "` and its escaped forms need fewer.
    const scheme = skip(bytes, at + 13, end, SEPARATOR, 12)
    const space = skip(bytes, scheme, end, ALNUM, 16)
    const value = skip(bytes, space, end, SPACE, 8)
    if (value === end && !final) return 'more'
    if (scheme === at + 13 || space === scheme || value === space) return null
    return tokenRun(bytes, value, value, end, final, { body: CREDENTIAL, min: 8 })
  },
}

const bearer: SecretPattern = {
  anchor: 'bearer',
  ignoreCase: true,
  match(bytes, at, end, final) {
    const value = skip(bytes, at + 6, end, SPACE, 8)
    if (value === end && !final) return 'more'
    if (value === at + 6) return null
    return tokenRun(bytes, value, value, end, final, { body: CREDENTIAL, min: 20, needs: DIGIT })
  },
}

function skip(bytes: Uint8Array, from: number, end: number, set: ByteClass, most: number): number {
  let at = from
  while (at < end && at - from < most && has(set, bytes[at])) at += 1
  return at
}

const USERINFO = byteClass(['AZ', 'az', '09'], "-._~%!$&'()*+,;=:@")
/** Longer than any password in a header line. Bounds what is held back for text such as `://aaaa…`. */
const USERINFO_MOST = 1024

/** `scheme://user:password@`, or a bare token before the `@`. A short user name alone is no secret. */
const urlUserinfo: SecretPattern = {
  anchor: '://',
  match(bytes, at, end, final) {
    const from = at + 3
    const stop = skip(bytes, from, end, USERINFO, USERINFO_MOST)
    if (stop === end && stop < from + USERINFO_MOST && !final) return 'more'
    // The last @ ends the userinfo, because people write passwords with a raw @.
    let to = stop - 1
    while (to > from && bytes[to] !== 0x40 /* @ */) to -= 1
    if (to <= from) return null
    const colon = bytes.subarray(from, to - 1).indexOf(0x3a)
    const hasPassword = colon !== -1
    return hasPassword || to - from >= 20 ? { from, to, tail: null, limit: to } : null
  },
}

/** Characters between the lines of a PEM private key, including its headers and escaped line ends. */
export const KEY_BODY = byteClass(['AZ', 'az', '09'], '+/=\r\n\t \\:,-')
/** An RSA key of 16,384 bits has 12,500 characters. */
const KEY_MOST = 16_384
const LABEL = byteClass(['AZ', '09'], ' ')

const keyBegin: SecretPattern = {
  anchor: '-----BEGIN ',
  match(bytes, at, end, final) {
    const to = boundaryLine(bytes, at + 11, end)
    if (to === 'more') return final ? null : 'more'
    return to === null ? null : { from: at, to, tail: KEY_BODY, limit: to + KEY_MOST }
  },
}

const keyEnd: SecretPattern = {
  anchor: '-----END ',
  match(bytes, at, end, final) {
    const to = boundaryLine(bytes, at + 9, end)
    if (to === 'more') return final ? null : 'more'
    return to === null ? null : { from: at, to, tail: null, limit: to, closesKey: true }
  },
}

/** Reads `… PRIVATE KEY-----` and returns where it ends. */
function boundaryLine(bytes: Uint8Array, from: number, end: number): number | 'more' | null {
  const dashes = skip(bytes, from, end, LABEL, 40)
  for (let n = 0; n < 5; n++) {
    if (dashes + n >= end) return 'more'
    if (bytes[dashes + n] !== 0x2d /* - */) return null
  }
  if (dashes - from < 'PRIVATE KEY'.length) return null
  const label = Buffer.from(bytes.subarray(from, dashes)).toString('latin1')
  return /PRIVATE KEY(?: BLOCK)?$/.test(label) ? dashes + 5 : null
}

const ALNUM_UNDERSCORE = byteClass(['AZ', 'az', '09'], '_')
const ALNUM_DASH = byteClass(['AZ', 'az', '09'], '-')

/** Every pattern. Minimum lengths come from an earlier product or are below what the vendor documents. */
export const SECRET_PATTERNS: readonly SecretPattern[] = [
  authorization,
  bearer,
  jwt,
  urlUserinfo,
  keyBegin,
  keyEnd,
  ...['gho_', 'ghp_', 'ghr_', 'ghs_', 'ghu_'].map((anchor) => token(anchor, { body: ALNUM, min: 20 })),
  token('github_pat_', { body: ALNUM_UNDERSCORE, min: 20 }),
  token('glpat-', { body: TOKEN, min: 20 }),
  ...['xoxa-', 'xoxb-', 'xoxe-', 'xoxp-', 'xoxr-', 'xoxs-', 'xapp-'].map((anchor) =>
    token(anchor, { body: ALNUM_DASH, min: 10 }),
  ),
  token('ya29.', { body: TOKEN, min: 20 }),
  token('AKIA', { body: UPPER_DIGIT, min: 16 }),
  token('ASIA', { body: UPPER_DIGIT, min: 16 }),
  token('AIza', { body: TOKEN, min: 35 }),
  token('sk-', { body: TOKEN, min: 20, needs: DIGIT, atBoundary: true }),
  token('e2b_', { body: HEX, min: 40, atBoundary: true }),
  token('cfd_', { body: HEX, min: 40 }),
]
