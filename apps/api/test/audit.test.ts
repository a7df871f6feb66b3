import { request as httpRequest, type IncomingMessage } from 'node:http'
import { newExecutionId, type AuditRow } from '@cofferdam/contract'
import type { Store } from '@cofferdam/store'
import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { recordSample, type SampleAttempt } from './sample-attempt.ts'
import { openScene, type Scene } from './scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const record = (sample: SampleAttempt) => recordSample(scene.store, sample)

const rowsOf = (text: string): AuditRow[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as AuditRow)

describe('GET /v1/audit/export', () => {
  it('sends every row as a line, newest first, and `after` continues behind a row', async () => {
    // IDs of one millisecond have no order, so the two get different milliseconds.
    const nowMs = Date.now()
    const [newest, older] = [newExecutionId(nowMs), newExecutionId(nowMs - 1)]
    const ids = [await record({ agent: 'lines', id: newest }), await record({ agent: 'lines', id: older })]
    const theirs = await record({ tenant: 'globex', agent: 'lines' })
    const url = '/v1/audit/export?agent_id=lines'
    const own = await scene.call({ url, headers: scene.acme })
    expect(own.headers['content-type']).toBe('application/x-ndjson; charset=utf-8')
    expect(own.text.endsWith('\n')).toBe(true)
    expect(rowsOf(own.text).map((row) => row.execution_id)).toEqual(ids)
    const rest = await scene.call({ url: `${url}&after=${ids[0]}.1`, headers: scene.acme })
    expect(rowsOf(rest.text).map((row) => row.execution_id)).toEqual(ids.slice(1))
    expect((await scene.call({ url: `${url}&after=${ids[1]}.1`, headers: scene.acme })).text).toBe('')
    expect(rowsOf((await scene.call({ url })).text).map((row) => row.execution_id)).toContain(theirs)
    expect((await scene.call({ url: `${url}&tenant_id=globex`, headers: scene.acme })).status).toBe(403)
    expect((await scene.call({ url: `${url}&after=exe_1.1` })).status).toBe(400)
  })

  it('reads pages only as fast as the client takes them, and stops when the client disconnects', async () => {
    // 8 MiB in 4,000 rows, which is more than the buffers of the sockets can take.
    const reason = 'x'.repeat(1900)
    for (let n = 0; n < 10; n += 1)
      await Promise.all(Array.from({ length: 400 }, () => record({ agent: 'many', reason })))
    let pages = 0
    const counted: Store = {
      ...scene.store,
      listAudit: (filter) => {
        pages += 1
        // There is always a next page, so this export never ends.
        const { cursor: _, ...again } = filter
        return scene.store
          .listAudit(again)
          .then((page) => ({ ...page, next_cursor: page.next_cursor ?? 'on' }))
      },
    }
    await using app = await serving({ store: counted })
    const open = async (): Promise<IncomingMessage> => {
      const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
      httpRequest(
        { port: app.port, path: '/v1/audit/export?agent_id=many&tenant_id=acme', headers: scene.admin },
        resolve,
      )
        .on('error', reject)
        .end()
      return await promise
    }
    const reader = await open()
    reader.on('error', () => undefined)
    await vi.waitFor(() => expect(pages).toBeGreaterThan(1), 20_000)
    // The client reads nothing, so the API stops after as many pages as the buffers of the sockets can take.
    const stalled = await settled(() => pages)
    reader.resume()
    await vi.waitFor(() => expect(pages).toBeGreaterThan(stalled + 5), 20_000)
    reader.destroy()
    const last = await settled(() => pages)
    expect(stalled).toBeLessThan(40)
    // The API allows 4 exports at once, and one key half of them. The closed export no longer counts, so this
    // key may open two again. A third is refused.
    const others: IncomingMessage[] = []
    for (let n = 0; n < 2; n += 1)
      await vi.waitFor(async () => {
        const other = await open()
        expect(other.statusCode).toBe(200)
        others.push(other)
      }, 20_000)
    expect((await open()).statusCode).toBe(503)
    expect(pages).toBeGreaterThan(last)
    for (const other of others) other.on('error', () => undefined).destroy()
  })

  it('cuts the connection instead of ending the response when the store fails on the way', async () => {
    await record({ agent: 'cut' })
    let pages = 0
    const failing: Store = {
      ...scene.store,
      listAudit: async (filter) => {
        pages += 1
        if (pages > 1) throw new Error('gone')
        return { ...(await scene.store.listAudit(filter)), next_cursor: 'on' }
      },
    }
    await using app = await serving({ store: failing })
    const answer = await fetch(`http://127.0.0.1:${app.port}/v1/audit/export?agent_id=cut`, {
      headers: scene.admin,
    })
    expect(answer.status).toBe(200)
    await expect(answer.text()).rejects.toThrow()
  })
})

describe('GET /v1/audit/feed', () => {
  it('waits for the next row, shows it once, and shows it even if its execution ID is old', async () => {
    const feed = async (query: string, headers = scene.acme) =>
      (await scene.call({ url: `/v1/audit/feed?agent_id=fed${query}`, headers })).json
    const old = newExecutionId(Date.now() - 3_600_000)
    const start = await feed('')
    expect(start).toEqual({ invocations: [], cursor: expect.any(String) })
    const waiting = feed(`&cursor=${start.cursor}&wait=30s`)
    await record({ tenant: 'globex', agent: 'fed' })
    await record({ agent: 'fed', id: old })
    const first = await waiting
    expect(first.invocations).toMatchObject([{ execution_id: old, tenant_id: 'acme' }])
    expect((await feed(`&cursor=${first.cursor}`)).invocations).toEqual([])
    expect((await scene.call({ url: '/v1/audit/feed?cursor=nonsense' })).status).toBe(400)
  })
})

async function serving(deps: Parameters<Scene['another']>[1]): Promise<AsyncDisposable & { port: number }> {
  const app: FastifyInstance = await scene.another({}, deps)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const address = app.server.address()
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    async [Symbol.asyncDispose]() {
      app.server.closeAllConnections()
      await app.close()
    },
  }
}

/** Returns the value once it has stayed the same for half a second. */
async function settled(read: () => number): Promise<number> {
  let value = read()
  let sinceMs = performance.now()
  await vi.waitFor(
    () => {
      if (read() !== value) {
        value = read()
        sinceMs = performance.now()
      }
      expect(performance.now() - sinceMs).toBeGreaterThan(500)
    },
    { timeout: 20_000, interval: 50 },
  )
  return value
}
