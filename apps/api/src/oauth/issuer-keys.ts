/**
 * The public keys of the issuer. It may rotate them at any time, and it may be away.
 *
 *   no keys, or older than STALE_MS ─► fetch, and wait for it ─► none: `issuer_unavailable`
 *   older than FRESH_MS             ─► fetch, and meanwhile use the old ones
 *   a token names an unknown key    ─► fetch, at most every COOLDOWN_MS ─► look again
 *
 * At most one fetch runs, and after a failure the next one waits for RETRY_MS. So callers with made-up tokens
 * cannot make this server flood the issuer.
 */
import { CofferdamError } from '@cofferdam/contract'
import type { JWTVerifyGetKey } from 'jose'
import { z } from 'zod'

/** Age at which keys are fetched again. A key that the issuer withdraws works for about that long. */
const FRESH_MS = 10 * 60_000
/** How long keys are used while the issuer does not answer. */
const STALE_MS = 60 * 60_000
const COOLDOWN_MS = 30_000
const RETRY_MS = 5000

export interface IssuerKeysOptions {
  issuer: string
  /** Undefined: each fetch of the keys reads the URL from the issuer's metadata. */
  jwksUrl: string | undefined
  /** Milliseconds since the epoch. */
  now: () => number
  /** Called with the error of each failed fetch. */
  onFailure: (error: unknown) => void
}

/** Returns what `jwtVerify` asks for keys. It throws `issuer_unavailable`, and what jose throws. */
export function createIssuerKeys({ issuer, jwksUrl, now, onFailure }: IssuerKeysOptions): JWTVerifyGetKey {
  let known: { find: JWTVerifyGetKey; atMs: number } | null = null
  let triedAtMs = Number.NEGATIVE_INFINITY
  let inFlight: Promise<void> | null = null

  async function load(): Promise<void> {
    const atMs = now()
    triedAtMs = atMs
    try {
      const { createLocalJWKSet } = await import('jose')
      const keys = await fetchJson(jwksUrl ?? (await findJwksUrl(issuer)))
      known = { find: createLocalJWKSet(keys as never), atMs }
    } catch (error) {
      onFailure(error)
    }
  }
  const fetchOnce = (): Promise<void> => (inFlight ??= load().finally(() => (inFlight = null)))
  const ageMs = (): number => (known === null ? Number.POSITIVE_INFINITY : now() - known.atMs)
  const pauseMs = (): number => now() - triedAtMs

  return async (header, token) => {
    if (ageMs() > FRESH_MS && (inFlight !== null || pauseMs() > RETRY_MS)) {
      const fetched = fetchOnce()
      if (ageMs() > STALE_MS) await fetched
    }
    if (known === null || ageMs() > STALE_MS) throw new CofferdamError('issuer_unavailable')
    try {
      return await known.find(header, token)
    } catch (error) {
      if (!isUnknownKey(error) || (inFlight === null && pauseMs() <= COOLDOWN_MS)) throw error
      await fetchOnce()
      return known.find(header, token)
    }
  }
}

const isUnknownKey = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ERR_JWKS_NO_MATCHING_KEY'

const metadataSchema = z.looseObject({ issuer: z.string(), jwks_uri: z.url({ protocol: /^https?$/ }) })

/**
 * Where the issuer's metadata says that its keys are. RFC 8414 puts the well-known part before the path of
 * the issuer, and OpenID Connect Discovery behind it.
 */
async function findJwksUrl(issuer: string): Promise<string> {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, '')
  const places = [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ]
  const failures: unknown[] = []
  for (const place of places) {
    try {
      const metadata = metadataSchema.parse(await fetchJson(place))
      // Otherwise the metadata of one issuer could stand in for another's on the same host (RFC 8414, 3.3).
      if (metadata.issuer !== issuer) throw new Error(`${place} is of the issuer ${metadata.issuer}`)
      if (issuer.startsWith('https:') && !metadata.jwks_uri.startsWith('https:'))
        throw new Error(`${place} names keys that are not behind https`)
      return metadata.jwks_uri
    } catch (error) {
      failures.push(error)
    }
  }
  throw new AggregateError(failures, `no metadata of the issuer ${issuer}`)
}

/** Largest document of the issuer. Key sets in practice have at most a few dozen keys of 2 KiB. */
const MAX_BYTES = 256 * 1024

const TIMEOUT_MS = 5000

/**
 * Returns the JSON document at `url`, whose server may hang, redirect or never stop sending. Rejects for
 * redirects, any status but 200, more than 256 KiB, and after 5 s.
 */
async function fetchJson(url: string): Promise<unknown> {
  const response = await fetch(url, {
    headers: { accept: 'application/json' },
    // A redirect would lead to a place that nobody configured.
    redirect: 'error',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Error(`${url} answered ${response.status}`)
  }
  const chunks: Uint8Array[] = []
  let size = 0
  // Counts what decompression yields. Leaving the loop closes the connection.
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > MAX_BYTES) throw new Error(`${url} sent more than ${MAX_BYTES} bytes`)
    chunks.push(chunk)
  }
  return JSON.parse(Buffer.concat(chunks).toString())
}
