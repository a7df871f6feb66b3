/** What an access token may do at /mcp: its scopes, its tenant and its agent. */
import { describe, expect, it } from 'vitest'
import { post } from './mcp-client.ts'
import { openGuarded, useGuarded } from './oauth-scene.ts'

const at = useGuarded()

const run = (source: string, more: object = {}) => ({
  name: 'run_code',
  arguments: { language: 'python', source, ...more },
})

describe('the scopes of a token', () => {
  const reader = (): string => at.api.token({ scope: 'openid cofferdam:read' })

  it('decide which tools it sees', async () => {
    const names = async (token: string): Promise<string[]> =>
      (await at.api.ask(token, 'tools/list')).json.result.tools.map(({ name }: { name: string }) => name)
    expect(await names(at.api.token())).toHaveLength(7)
    expect(await names(reader())).toEqual(['get_execution'])
    expect(await names(at.api.token({ scope: undefined, scp: ['cofferdam:cancel'] }))).toEqual([
      'cancel_execution',
    ])
    expect(await names(at.api.token({ scope: 'cofferdam:runs' }))).toEqual([])
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['tools/call', run('hello'), 'cofferdam:run'],
    ['tools/call', { name: 'execute_code', arguments: { code: '1' } }, 'cofferdam:run'],
    ['tools/call', { name: 'session_files', arguments: { session: 'a', op: 'list' } }, 'cofferdam:run'],
    ['tools/call', { name: 'cancel_execution', arguments: {} }, 'cofferdam:cancel'],
    ['tasks/cancel', { taskId: 'any' }, 'cofferdam:cancel'],
  ])('refuse %s %s with all scopes at once', async (method, params, missing) => {
    const { status, challenge, json } = await at.api.ask(reader(), method, params)
    expect([status, json.error.code]).toEqual([403, 'forbidden'])
    expect(challenge).toContain(
      `error="insufficient_scope", error_description="The access token lacks the scope ${missing}."`,
    )
    expect(challenge).toContain('scope="cofferdam:run cofferdam:read cofferdam:cancel"')
  })

  it.each(['resources/read', 'tasks/get', 'tasks/update', 'subscriptions/listen'])(
    'refuse %s without cofferdam:read',
    async (method) => {
      const token = at.api.token({ scope: 'cofferdam:run' })
      const { status, challenge } = await at.api.ask(token, method, { uri: 'cofferdam://x', taskId: 'x' })
      expect([status, challenge]).toEqual([403, expect.stringContaining('insufficient_scope')])
    },
  )

  it('hold for each message of a batch', async () => {
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: run('hello') }
    const answer = await fetch(at.api.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${reader()}`,
      },
      body: JSON.stringify([{ jsonrpc: '2.0', id: 2, method: 'ping' }, message]),
    })
    expect(answer.status).toBe(403)
  })
})

describe('the claims of a token', () => {
  it.each<[string, unknown]>([
    ['is missing', undefined],
    ['is a list', ['acme']],
    ['is no name', '../acme'],
    ['is empty', ''],
  ])('are refused when that of the tenant %s', async (_what, value) => {
    const { status, challenge, json } = await at.api.ask(at.api.token({ tenant_id: value }), 'tools/list')
    expect([status, json.error.code, challenge]).toEqual([403, 'forbidden', null])
  })

  it('show nothing of another tenant', async () => {
    const { json } = await at.api.ask(at.api.token(), 'tools/call', run('big'))
    const { execution_id, artifacts } = json.result.structuredContent
    const stranger = at.api.token({ tenant_id: 'globex' })
    for (const name of ['get_execution', 'cancel_execution']) {
      const { json: hidden } = await at.api.ask(stranger, 'tools/call', { name, arguments: { execution_id } })
      expect(hidden.result.content[0].text, name).toMatch(/^not_found: /)
    }
    const read = await at.api.ask(stranger, 'resources/read', { uri: artifacts[0].uri })
    expect(read.json.error.code).toBe(-32_602)
    const named = { ...run('hello'), _meta: { 'io.cofferdam/tenant_id': 'acme' } }
    expect((await callWithMeta(stranger, named)).text).toMatch(/^forbidden: /)
    // A token for a tenant that does not exist gets the same error as the token of globex.
    const ghost = await at.api.ask(at.api.token({ tenant_id: 'ghost' }), 'resources/read', {
      uri: artifacts[0].uri,
    })
    expect(ghost.json.error.code).toBe(-32_602)
  })

  /** A call whose `_meta` has more than `post` gives it. */
  async function callWithMeta(token: string, params: Record<string, unknown>): Promise<{ text: string }> {
    const answer = await post(at.api.url, 'tools/call', params, {
      headers: { authorization: `Bearer ${token}` },
      meta: params['_meta'] as object,
    })
    const [, data = '{}'] = /(?:^data: )?(\{.*)$/m.exec(await answer.text()) ?? []
    return { text: JSON.parse(data).result.content[0].text }
  }

  it('are mapped to tenants and agents as configured', async () => {
    await using mapped = await openGuarded(at.scene, {
      tenantClaim: 'https://example.com/org',
      tenants: new Map([['org_1', 'acme']]),
      agentClaim: 'client_id',
    })
    const claims = { 'https://example.com/org': 'org_1', client_id: 'coder', tenant_id: 'globex' }
    const { json } = await mapped.ask(mapped.token(claims), 'tools/call', run('hello'))
    expect(json.result.structuredContent.ok).toBe(true)
    const { json: audit } = await at.scene.call({ url: '/v1/audit/invocations?tenant_id=acme&limit=1' })
    expect(audit.invocations[0]).toMatchObject({ agent_id: 'coder', ...idOf(json) })
    for (const other of ['acme', 'org_2', '__proto__'])
      expect(
        (await mapped.ask(mapped.token({ ...claims, 'https://example.com/org': other }), 'ping')).status,
      ).toBe(403)
    expect((await mapped.ask(mapped.token({ ...claims, client_id: 7 }), 'ping')).status).toBe(403)
  })
  // oxlint-disable-next-line typescript/no-explicit-any
  const idOf = (json: any) => ({ execution_id: json.result.structuredContent.execution_id })
})
