/** The cursors of all lists that a tenant may read: they reveal nothing and work for no other tenant. */
import { idToUuid, type ExecutionId } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { recordSample } from './sample-attempt.ts'
import { execution, openScene, type Scene } from './scene.ts'

let scene: Scene
/** Executions of both tenants. */
const ids: ExecutionId[] = []
beforeAll(async () => {
  scene = await openScene()
  for (const tenant of ['acme', 'acme', 'globex'])
    ids.push(await recordSample(scene.store, { tenant, agent: 'paged' }))
  for (const tenant of ['acme', 'globex']) {
    await scene.store.tenants.setPolicy(tenant, { retention_days: 7 }, 'test')
    for (const name of ['one', 'two']) {
      const payload = { name, request: execution('1', { tenant_id: tenant }), enabled: false }
      expect((await scene.call({ method: 'POST', url: '/v1/routines', payload })).status).toBe(201)
    }
  }
  for (const source of ['wait', 'wait']) {
    const reply = await scene.call({ method: 'POST', url: '/v1/executions', payload: execution(source) })
    ids.push(reply.json.execution_id)
  }
})
afterAll(async () => {
  for (const one of await scene.producer.live('acme', 10)) await scene.producer.cancel(one.execution_id)
  await scene[Symbol.asyncDispose]()
})

/** Checks that the cursor contains no execution ID, neither as text nor as bytes. */
function expectOpaque(cursor: string): void {
  const bytes = Buffer.from(cursor, 'base64url')
  for (const id of ids)
    for (const name of [id, id.slice(4), idToUuid(id)]) {
      expect(cursor).not.toContain(name)
      expect(bytes.toString('latin1')).not.toContain(name)
      expect(bytes.toString('latin1')).not.toContain(Buffer.from(id.slice(4), 'hex').toString('latin1'))
    }
}

describe('a cursor of the list of', () => {
  it.each([
    ['executions', '/v1/executions?agent_id=paged&status=ended&limit=1'],
    ['live executions', '/v1/executions?status=live&limit=1'],
    ['audit rows', '/v1/audit/invocations?agent_id=paged&limit=1'],
    ['policy events', '/v1/tenants/TENANT/policy/events?limit=1'],
    ['routines', '/v1/routines?limit=1'],
  ])('%s contains no execution ID and works only for its own tenant', async (_list, url) => {
    const page = (tenant: string, headers: Record<string, string>, cursor?: string) =>
      scene.call({
        url: `${url.replace('TENANT', tenant)}${cursor === undefined ? '' : `&cursor=${cursor}`}`,
        headers,
      })
    const first = await page('acme', scene.acme)
    const cursor = first.json.next_cursor as string
    expectOpaque(cursor)
    const second = await page('acme', scene.acme, cursor)
    expect(second.status).toBe(200)
    expect(second.text).not.toBe(first.text)
    expect((await page('globex', scene.globex, cursor)).status).toBe(400)
  })

  it('the audit feed contains no execution ID, even behind another tenant’s execution', async () => {
    const url = '/v1/audit/feed?agent_id=paged&cursor='
    let cursor = 'beginning'
    // Other test files write to the same server, and the feed waits for their transactions.
    await vi.waitFor(async () => {
      const page = (await scene.call({ url: `${url}${cursor}`, headers: scene.acme })).json
      expectOpaque(page.cursor)
      cursor = page.cursor
      const later = (await scene.call({ url: `${url}${cursor}`, headers: scene.acme })).json
      expect(later).toEqual({ invocations: [], cursor })
    }, 20_000)
    const theirs = await scene.call({ url: `${url}${cursor}`, headers: scene.globex })
    expect(theirs.status).toBe(400)
    expect(theirs.json.error.message).toMatch(/same tenant/)
    // An admin can use the cursor of a tenant when it names that tenant, but not for all tenants.
    const [own, all] = await Promise.all(
      ['&tenant_id=acme', ''].map((tenant) => scene.call({ url: `${url}${cursor}${tenant}` })),
    )
    expect([own?.status, all?.status]).toEqual([200, 400])
  })
})
