/** Reading the keys of an issuer that rotates them, does not answer, or attacks the API. */
import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { startOAuthDouble } from '../../../infra/doubles/oauth/oauth-double.ts'
import { createIssuerKeys } from '../src/oauth/issuer-keys.ts'
import { createTokenVerifier } from '../src/oauth/verify-token.ts'

const AUDIENCE = 'https://cofferdam.example.com/mcp'
const MINUTE_MS = 60_000

/** A check of tokens with a clock of its own. */
function checker(issuer: string, jwksUrl?: string) {
  const failures: unknown[] = []
  const start = Date.now()
  let skewMs = 0
  const now = (): number => start + skewMs
  const onFailure = (error: unknown): void => void failures.push(error)
  const settings = {
    issuer,
    resource: AUDIENCE,
    audience: AUDIENCE,
    jwksUrl,
    algorithms: ['ES256'],
    tenantClaim: 'tenant_id',
    tenants: undefined,
    agentClaim: undefined,
  }
  const verify = createTokenVerifier(settings, createIssuerKeys({ issuer, jwksUrl, now, onFailure }), now)
  /** The code of the refusal, or `ok`. */
  const outcome = (token: string): Promise<string> =>
    verify(token).then(
      () => 'ok',
      (error: { code?: string }) => error.code ?? 'no code',
    )
  return { verify, outcome, failures, advance: (ms: number) => (skewMs += ms) }
}

/** Claims of a token that stays valid however far a test moves its clock. */
const LONG = { aud: AUDIENCE, exp: Math.floor(Date.now() / 1000) + 100_000 }

describe('an issuer that works', () => {
  it('is asked once for its metadata and its keys, however many tokens come at once', async () => {
    await using issuer = await startOAuthDouble()
    const { outcome } = checker(issuer.issuer)
    const outcomes = await Promise.all(Array.from({ length: 50 }, () => outcome(issuer.token(LONG))))
    expect(new Set(outcomes)).toEqual(new Set(['ok']))
    expect(issuer.requests).toEqual(['/.well-known/oauth-authorization-server', '/keys'])
  })

  it('is asked for keys alone when their address is configured', async () => {
    await using issuer = await startOAuthDouble()
    const { outcome } = checker(issuer.issuer, `${issuer.issuer}/keys`)
    expect([await outcome(issuer.token(LONG)), issuer.requests]).toEqual(['ok', ['/keys']])
  })

  it('may rotate its keys, and tokens of the old key then work no longer', async () => {
    await using issuer = await startOAuthDouble()
    const { outcome, advance } = checker(issuer.issuer)
    const old = issuer.token(LONG)
    expect(await outcome(old)).toBe('ok')
    issuer.rotateKeys()
    advance(MINUTE_MS)
    expect(await outcome(issuer.token(LONG))).toBe('ok')
    expect(await outcome(old)).toBe('unauthenticated')
  })

  it('stops trusting a withdrawn key within ten minutes, without a token of the new one', async () => {
    await using issuer = await startOAuthDouble()
    const { outcome, advance } = checker(issuer.issuer)
    const old = issuer.token(LONG)
    expect(await outcome(old)).toBe('ok')
    issuer.rotateKeys()
    advance(11 * MINUTE_MS)
    // The first token of the old key starts a refresh of the keys.
    await outcome(old)
    await expect.poll(() => outcome(old), { timeout: 10_000 }).toBe('unauthenticated')
  })

  it('is asked at most once in half a minute because of unknown keys', async () => {
    await using issuer = await startOAuthDouble()
    const { outcome, advance } = checker(issuer.issuer, `${issuer.issuer}/keys`)
    expect(await outcome(issuer.token(LONG))).toBe('ok')
    const flood = async (): Promise<void> => {
      for (let turn = 0; turn < 20; turn += 1) {
        const tokens = Array.from({ length: 10 }, (_, index) =>
          issuer.token(LONG, { kid: `${turn} ${index}` }),
        )
        for (const one of await Promise.all(tokens.map(outcome))) expect(one).toBe('unauthenticated')
      }
    }
    await flood()
    expect(issuer.requests).toHaveLength(1)
    advance(31_000)
    await flood()
    expect(issuer.requests).toHaveLength(2)
    expect(await outcome(issuer.token(LONG))).toBe('ok')
  })
})

describe('an issuer that is away', () => {
  it('is trusted by its last keys for an hour, then its tokens cannot be checked', async () => {
    const issuer = await startOAuthDouble()
    const { outcome, advance, failures } = checker(issuer.issuer)
    const token = issuer.token(LONG)
    expect(await outcome(token)).toBe('ok')
    await issuer[Symbol.asyncDispose]()
    advance(50 * MINUTE_MS)
    expect(await outcome(token)).toBe('ok')
    await expect.poll(() => failures.length, { timeout: 10_000 }).toBe(1)
    advance(11 * MINUTE_MS)
    expect(await outcome(token)).toBe('issuer_unavailable')
  })

  it('is not asked again at once', async () => {
    let asked = 0
    await using server = await serve((_request, response) => {
      asked += 1
      response.writeHead(500).end()
    })
    await using issuer = await startOAuthDouble()
    const { outcome, advance } = checker(issuer.issuer, server.url)
    for (let turn = 0; turn < 20; turn += 1)
      expect(await outcome(issuer.token(LONG))).toBe('issuer_unavailable')
    expect(asked).toBe(1)
    advance(6000)
    expect([await outcome(issuer.token(LONG)), asked]).toEqual(['issuer_unavailable', 2])
  })
})

describe('an issuer that attacks', () => {
  const hostile = (respond: RequestListener) => async (): Promise<{ outcome: string; reason: string }> => {
    await using server = await serve(respond)
    await using issuer = await startOAuthDouble()
    const { outcome, failures } = checker(issuer.issuer, server.url)
    const done = await outcome(issuer.token(LONG))
    return { outcome: done, reason: String(failures) }
  }
  const json = (body: string) => hostile((_request, response) => void response.writeHead(200).end(body))

  it('by never answering costs five seconds', async () => {
    const begun = performance.now()
    const { outcome, reason } = await hostile(() => undefined)()
    expect([outcome, reason]).toEqual(['issuer_unavailable', expect.stringMatching(/TimeoutError/)])
    expect(performance.now() - begun).toBeGreaterThan(4500)
  })

  it('by never ending its answer costs five seconds', async () => {
    const { outcome, reason } = await hostile((_request, response) => {
      response.writeHead(200).write('{"keys":[')
    })()
    expect([outcome, reason]).toEqual(['issuer_unavailable', expect.stringMatching(/TimeoutError/)])
  })

  it('by sending 1 GiB is read for 256 KiB', async () => {
    let sent = 0
    const closed = Promise.withResolvers<undefined>()
    const flood = async (response: ServerResponse): Promise<void> => {
      response.writeHead(200)
      response.on('close', () => closed.resolve(undefined))
      const chunk = Buffer.alloc(64 * 1024, ' ')
      while (sent < 1024 ** 3 && !response.destroyed) {
        sent += chunk.length
        if (!response.write(chunk)) await Promise.race([once(response, 'drain'), closed.promise])
      }
    }
    const { outcome, reason } = await hostile((_request, response) => void flood(response))()
    expect([outcome, reason]).toEqual(['issuer_unavailable', expect.stringMatching(/more than 262144 bytes/)])
    await closed.promise
    // `sent` also counts bytes in the kernel's buffers, which the API never read.
    expect(sent).toBeLessThan(32 * 1024 * 1024)
  })

  it('by redirecting leads nowhere', async () => {
    let reached = 0
    await using target = await serve((_request, response) => {
      reached += 1
      response.writeHead(200).end('{"keys":[]}')
    })
    const { outcome } = await hostile(
      (_request, response) => void response.writeHead(302, { location: target.url }).end(),
    )()
    expect([outcome, reached]).toEqual(['issuer_unavailable', 0])
  })

  it.each([
    ['no JSON', '<html>', 'issuer_unavailable'],
    ['no set', '{"keys":{}}', 'issuer_unavailable'],
    ['nothing', 'null', 'issuer_unavailable'],
    ['no keys', '{"keys":[]}', 'unauthenticated'],
    ['odd keys', '{"keys":[1,null,{"kty":"oct","k":"AAAA"}]}', 'issuer_unavailable'],
  ])('by publishing %s gets no token through', async (_what, body, expected) => {
    expect((await json(body)()).outcome).toBe(expected)
  })

  it('by metadata of another issuer is not believed', async () => {
    await using issuer = await startOAuthDouble()
    await using other = await serve((_request, response) => {
      response
        .writeHead(200)
        .end(JSON.stringify({ issuer: issuer.issuer, jwks_uri: `${issuer.issuer}/keys` }))
    })
    const { outcome, failures } = checker(other.url)
    expect(await outcome(issuer.token({ ...LONG, iss: other.url }))).toBe('issuer_unavailable')
    expect(failures).toHaveLength(1)
  })
})

async function serve(answer: RequestListener): Promise<AsyncDisposable & { url: string }> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
