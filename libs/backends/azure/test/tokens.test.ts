/** Tokens from every credential, with the double; @azure/identity gets them from the same double. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AzureCliCredential, ManagedIdentityCredential } from '@azure/identity'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { writeAzStub } from '../double/az-stub.ts'
import { startAzureDouble, type AzureDouble } from '../double/azure-double.ts'
import { azureConfigSchema } from '../src/config.ts'
import { createCredentials, type AccessToken, type Credential } from '../src/credentials.ts'
import { createTokens, SESSIONS_AUDIENCE, type Tokens } from '../src/tokens.ts'

const never = new AbortController().signal

describe('azure tokens', () => {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-azure-tokens-'))
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  let double: AzureDouble

  beforeAll(async () => {
    double = await startAzureDouble({ pools: [{ name: 'python', kind: 'PythonLTS' }] })
  })
  afterEach(() => {
    vi.unstubAllEnvs()
  })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true })
  })

  const listed = (token: string): Promise<number> =>
    fetch(`${double.endpoint('python')}/listSessions`, {
      headers: { Authorization: `Bearer ${token}` },
    }).then(({ status }) => status)
  const settings = (more: Record<string, unknown>) => azureConfigSchema.parse(more)

  it('come from az for the data plane’s audience, like those of AzureCliCredential', async () => {
    const stub = await writeAzStub(double.identity, folder)
    vi.stubEnv('PATH', `${folder}:${process.env['PATH'] ?? ''}`)
    const theirs = await new AzureCliCredential().getToken(`${SESSIONS_AUDIENCE}/.default`)
    const tokens = createTokens(createCredentials(settings({ az: join(folder, 'az') })))
    const ours = await tokens.get(SESSIONS_AUDIENCE, never)
    expect([await listed(theirs.token), await listed(ours)]).toEqual([200, 200])
    expect(tokens.answeredBy).toBe('azure-cli')
    const [asked, askedByUs] = await stub.calls()
    for (const words of ['account get-access-token', '--output json', `--resource ${SESSIONS_AUDIENCE}`])
      expect([asked?.includes(words), askedByUs?.includes(words)], words).toEqual([true, true])
  })

  it('come from the managed identity without a login, like those of ManagedIdentityCredential', async () => {
    await writeAzStub(double.identity, folder, { fails: true })
    const header = double.identity.settings.identityHeader
    vi.stubEnv('IDENTITY_ENDPOINT', double.identityEndpoint)
    vi.stubEnv('IDENTITY_HEADER', header)
    const theirs = await new ManagedIdentityCredential().getToken(`${SESSIONS_AUDIENCE}/.default`)
    const az = join(folder, 'az')
    const bySettings = {
      identity_endpoint: double.identityEndpoint,
      identity_header_file: file('header', header),
    }
    const tokens = createTokens(createCredentials(settings({ az, ...bySettings })))
    const ours = await tokens.get(SESSIONS_AUDIENCE, never)
    expect([await listed(theirs.token), await listed(ours)]).toEqual([200, 200])
    expect(tokens.answeredBy).toBe('managed-identity')
    const told = createTokens(
      createCredentials(settings({ az }), { endpoint: double.identityEndpoint, header }),
    )
    expect(await listed(await told.get(SESSIONS_AUDIENCE, never))).toBe(200)
    const asked = double.requests
      .filter((line) => line.includes('/msi/token'))
      .map((line) => new URL(line.slice(4), 'http://x').searchParams)
    expect(asked.map((query) => [query.get('resource'), query.get('api-version')])).toEqual([
      [SESSIONS_AUDIENCE, '2019-08-01'],
      [SESSIONS_AUDIENCE, '2019-08-01'],
      [SESSIONS_AUDIENCE, '2019-08-01'],
    ])
  })

  it('are awaited with the usual timeout if the endpoint of an identity is configured', async () => {
    const bounds = vi.spyOn(AbortSignal, 'timeout')
    onTestFinished(() => bounds.mockRestore())
    const tokens = createTokens(
      createCredentials(
        settings({
          credentials: ['managed-identity'],
          identity_endpoint: double.identityEndpoint,
          identity_header_file: file('header', double.identity.settings.identityHeader),
          api_timeout_ms: 77_000,
        }),
      ),
    )
    expect(await listed(await tokens.get(SESSIONS_AUDIENCE, never))).toBe(200)
    expect(bounds.mock.calls).toContainEqual([77_000])
  })

  needs('openssl').describe('from the authority of a tenant', () => {
    let secure: AzureDouble
    let ca: string

    beforeAll(async () => {
      const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
      const words = 'req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=double'
      const names = ['-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert]
      execFileSync('openssl', [...words.split(' '), ...names], { stdio: 'ignore' })
      ca = readFileSync(cert, 'utf8')
      writeFileSync(join(folder, 'both.pem'), ca + readFileSync(key, 'utf8'))
      const tls = { key: readFileSync(key, 'utf8'), cert: ca }
      secure = await startAzureDouble({ pools: [{ name: 'python', kind: 'PythonLTS' }], tls })
    })
    afterAll(() => secure[Symbol.asyncDispose]())

    function tokensOf(more: Record<string, unknown>): Tokens {
      const app = {
        tenant_id: 'tenant',
        client_id: 'app',
        authority: secure.tlsOrigin,
        api_timeout_ms: 60_000,
      }
      return createTokens(createCredentials(settings({ ...app, ...more }), undefined, { tlsOptions: { ca } }))
    }
    const listedAt = async (token: string): Promise<number> => {
      const headers = { Authorization: `Bearer ${token}` }
      return (await fetch(`${secure.endpoint('python')}/listSessions`, { headers })).status
    }

    it.each([
      ['client-secret', 'client_secret_file', 'double-client-secret'],
      ['workload-identity', 'federated_token_file', 'double-federated-assertion'],
    ])('come from the authority by %s', async (way, name, secret) => {
      const tokens = tokensOf({ credentials: [way], [name]: file(way, secret) })
      expect(await listedAt(await tokens.get(SESSIONS_AUDIENCE, never))).toBe(200)
      expect(tokens.answeredBy).toBe(way)
    })

    it('are new after one was refused', async () => {
      const secret = file('refused', 'double-client-secret')
      const tokens = tokensOf({ credentials: ['client-secret'], client_secret_file: secret })
      const first = await tokens.get(SESSIONS_AUDIENCE, never)
      tokens.refused(SESSIONS_AUDIENCE, first)
      expect(await tokens.get(SESSIONS_AUDIENCE, never)).not.toBe(first)
    })

    it('come by a certificate, which signs the assertion', async () => {
      const certificate = join(folder, 'both.pem')
      const way = { credentials: ['client-certificate'], client_certificate_file: certificate }
      // The double knows no application's certificate, but its refusal shows that it got the assertion.
      await expect(tokensOf(way).get(SESSIONS_AUDIENCE, never)).rejects.toThrow('invalid_client')
    })

    it('are refused with a reason that contains no secret', async () => {
      const wrong = file('wrong', 'a-wrong-secret-canary')
      const tokens = tokensOf({ credentials: ['client-secret'], client_secret_file: wrong })
      const failed = await tokens.get(SESSIONS_AUDIENCE, never).catch((error: unknown) => error)
      expect(failed).toMatchObject({
        code: 'backend_unavailable',
        message: expect.stringContaining('invalid_client') as string,
      })
      expect(String(failed)).not.toContain('canary')
    })
  })

  it('for another audience are refused', async () => {
    const { token } = double.identity.mint('https://management.azure.com', 'test')
    expect(await listed(token)).toBe(401)
  })

  it.each(['azure-powershell', 'azure-developer-cli', 'client-certificate'])(
    'do not come by %s if it is not set up, and the next credential is tried',
    async (way) => {
      await writeAzStub(double.identity, folder)
      // An empty folder has neither pwsh nor azd.
      vi.stubEnv('PATH', mkdtempSync(join(folder, 'path-')))
      const wish = { credentials: [way, 'azure-cli'], az: join(folder, 'az'), api_timeout_ms: 60_000 }
      const tokens = createTokens(createCredentials(settings(wish)))
      expect(await listed(await tokens.get(SESSIONS_AUDIENCE, never))).toBe(200)
      expect(tokens.answeredBy).toBe('azure-cli')
    },
  )

  it('come by the default chain of Microsoft’s library', async () => {
    await writeAzStub(double.identity, folder)
    vi.stubEnv('PATH', `${folder}:/usr/bin:/bin`)
    vi.stubEnv('AZURE_TOKEN_CREDENTIALS', 'dev')
    const tokens = createTokens(
      createCredentials(settings({ credentials: ['default'], api_timeout_ms: 60_000 })),
    )
    expect(await listed(await tokens.get(SESSIONS_AUDIENCE, never))).toBe(200)
    expect(tokens.answeredBy).toBe('default')
  })

  describe('are requested', () => {
    const HOUR_MS = 3_600_000
    function counted(answer: (n: number) => AccessToken): { credential: Credential; count: () => number } {
      let count = 0
      return {
        credential: { name: 'azure-cli', token: async () => answer((count += 1)) },
        count: () => count,
      }
    }

    it('once, however many callers want one', async () => {
      const { credential, count } = counted((n) => ({ token: `t${n}`, expiresAtMs: HOUR_MS }))
      const tokens = createTokens([credential], () => 0)
      expect(new Set(await Promise.all(Array.from({ length: 9 }, () => tokens.get('a', never)))).size).toBe(1)
      expect(count()).toBe(1)
    })

    it('again five minutes before they expire, while callers use the old one', async () => {
      let now = 0
      const { credential, count } = counted((n) => ({ token: `t${n}`, expiresAtMs: n * HOUR_MS }))
      const tokens = createTokens([credential], () => now)
      await tokens.get('a', never)
      now = HOUR_MS - 5 * 60_000 - 1
      expect([await tokens.get('a', never), count()]).toEqual(['t1', 1])
      now += 1
      expect(await tokens.get('a', never)).toBe('t1')
      await vi.waitFor(async () => expect(await tokens.get('a', never)).toBe('t2'), 20_000)
      expect(count()).toBe(2)
    })

    it('without harm if that fails: the old one serves until it expires', async () => {
      let now = 0
      const { credential } = counted((n) => {
        if (n > 1) throw new Error('down')
        return { token: 't1', expiresAtMs: HOUR_MS }
      })
      const tokens = createTokens([credential], () => now)
      await tokens.get('a', never)
      now = HOUR_MS - 1
      expect(await tokens.get('a', never)).toBe('t1')
      now = HOUR_MS
      await expect(tokens.get('a', never)).rejects.toMatchObject({ code: 'backend_unavailable' })
    })

    it('at once after the service refused one', async () => {
      const { credential } = counted((n) => ({ token: `t${n}`, expiresAtMs: HOUR_MS }))
      const tokens = createTokens([credential], () => 0)
      tokens.refused('a', await tokens.get('a', never))
      expect(await tokens.get('a', never)).toBe('t2')
    })
  })
})
