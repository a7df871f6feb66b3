/** The MCP SDK's client logs in by itself: it knows nothing but the address of /mcp. */
import {
  Client,
  StreamableHTTPClientTransport,
  UnauthorizedError,
  type OAuthClientProvider,
} from '@modelcontextprotocol/client'
import { expect, it } from 'vitest'
import { callTool } from './mcp-client.ts'
import { useGuarded } from './oauth-scene.ts'

const at = useGuarded()

const REDIRECT = 'http://127.0.0.1/callback'

/**
 * Acts for a person with a browser: opens the login link and returns the query of the redirect, which has the
 * code.
 */
function createPerson() {
  const kept: { client?: unknown; tokens?: object; verifier?: string; discovery?: unknown } = {}
  const visited: URL[] = []
  const provider = {
    redirectUrl: REDIRECT,
    clientMetadata: { client_name: 'test', redirect_uris: [REDIRECT] },
    clientInformation: () => kept.client,
    saveClientInformation: (client: unknown) => void (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: (tokens: object) => void (kept.tokens = tokens),
    saveCodeVerifier: (verifier: string) => void (kept.verifier = verifier),
    codeVerifier: () => kept.verifier ?? '',
    saveDiscoveryState: (discovery: unknown) => void (kept.discovery = discovery),
    discoveryState: () => kept.discovery,
    redirectToAuthorization: (url: URL) => void visited.push(url),
  } as unknown as OAuthClientProvider
  const browse = async (): Promise<URLSearchParams> => {
    const answer = await fetch(visited.at(-1) ?? '', { redirect: 'manual' })
    return new URL(answer.headers.get('location') ?? '').searchParams
  }
  return { kept, visited, provider, browse }
}

type Person = ReturnType<typeof createPerson>

const transportFor = ({ provider }: Person, address = at.api.url) =>
  new StreamableHTTPClientTransport(new URL(address), { authProvider: provider })

const newClient = () =>
  new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } })

async function logIn(person: Person, address?: string): Promise<Client> {
  const first = transportFor(person, address)
  await expect(newClient().connect(first)).rejects.toBeInstanceOf(UnauthorizedError)
  await first.finishAuth(await person.browse())
  const client = newClient()
  await client.connect(transportFor(person, address))
  return client
}

it('finds the issuer, registers, gets a token for this server, and runs code', async () => {
  const person = createPerson()
  const client = await logIn(person, `${at.api.url}?agent_id=coder`)
  const asked = person.visited[0]?.searchParams
  expect([asked?.get('resource'), asked?.get('scope'), asked?.get('code_challenge_method')]).toEqual([
    at.api.url,
    'cofferdam:run cofferdam:read cofferdam:cancel',
    'S256',
  ])
  const result = await callTool(client, 'run_code', { language: 'python', source: 'hello' })
  expect(result.structuredContent).toMatchObject({ ok: true, stdout: 'hello\n' })
  const { json } = await at.scene.call({ url: '/v1/audit/invocations?tenant_id=acme&limit=1' })
  expect(json.invocations[0]).toMatchObject({ agent_id: 'coder' })
  await client.close()
})

it('gets a new token by itself when the old one has expired', async () => {
  const person = createPerson()
  const client = await logIn(person)
  const expired = at.api.token({ exp: Math.floor(Date.now() / 1000) - 600 })
  person.kept.tokens = { ...person.kept.tokens, access_token: expired }
  expect((await client.listTools()).tools).toHaveLength(7)
  expect(person.kept.tokens).not.toMatchObject({ access_token: expired })
  expect(person.visited).toHaveLength(1)
  await client.close()
})

it('asks the person for all scopes when the token lacks one', async () => {
  const person = createPerson()
  const client = await logIn(person)
  const access_token = at.api.token({ scope: 'cofferdam:read' })
  person.kept.tokens = { ...person.kept.tokens, access_token, refresh_token: undefined }
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['get_execution'])
  const args = { language: 'python', source: 'hello' }
  await expect(callTool(client, 'run_code', args)).rejects.toBeInstanceOf(UnauthorizedError)
  expect(person.visited.at(-1)?.searchParams.get('scope')?.split(' ')).toEqual(
    expect.arrayContaining(['cofferdam:run', 'cofferdam:read', 'cofferdam:cancel']),
  )
  await client.close()
})
