/** How a call of /mcp is cancelled in each era, across replicas, and what leaves it running. */
import { newExecutionId, type ExecutionId } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { callTool, connectMcp, ERAS, listenForMcp, openReplicas, post } from './mcp-client.ts'
import type { Scene } from './scene.ts'

let scene: Scene
let url: string
/** Another replica over the same Redis. */
let otherUrl: string

beforeAll(async () => {
  ;({ scene, url, otherUrl } = await openReplicas())
})
afterAll(() => scene[Symbol.asyncDispose]())

const waiting = { language: 'python', source: 'wait' }

/** The newest execution of the tenant, once there is one that `known` does not contain. */
const newExecution = (known: ReadonlySet<string>): Promise<ExecutionId> =>
  vi.waitFor(
    async () => {
      const [newest] = await scene.producer.live('acme', 1)
      if (newest === undefined || known.has(newest.execution_id)) throw new Error('none yet')
      return newest.execution_id
    },
    { timeout: 10_000, interval: 20 },
  )

const liveIds = async (): Promise<Set<string>> =>
  new Set((await scene.producer.live('acme', 100)).map(({ execution_id }) => execution_id))

const untilEnding = (id: ExecutionId): Promise<unknown> =>
  vi.waitFor(async () => expect((await scene.producer.get(id))?.result?.ending).toBe('cancelled'), {
    timeout: 10_000,
    interval: 20,
  })

describe.each(ERAS)('a client of revision %s', (era) => {
  it('cancels the execution when it cancels the call', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const stop = new AbortController()
    const known = await liveIds()
    const call = callTool(client, 'run_code', waiting, { signal: stop.signal }).catch(() => 'cancelled')
    const id = await newExecution(known)
    stop.abort()
    expect(await call).toBe('cancelled')
    await untilEnding(id)
  })

  it('leaves a detached execution running', async () => {
    await using client = await connectMcp(url, scene.acme, era)
    const stop = new AbortController()
    const known = await liveIds()
    const args = { ...waiting, detach: true }
    const call = callTool(client, 'run_code', args, { signal: stop.signal }).catch(() => 'cancelled')
    const id = await newExecution(known)
    stop.abort()
    expect(await call).toBe('cancelled')
    // A later call of the same client is answered after the cancellation was received.
    const found = await callTool(client, 'get_execution', { execution_id: id, wait_s: 0 })
    expect(['queued', 'running']).toContain(found.structuredContent.status)
    await callTool(client, 'cancel_execution', { execution_id: id })
    await untilEnding(id)
  })

  it('does not cancel what goes on after the answer', async () => {
    const client = await connectMcp(url, scene.acme, era)
    const live = await callTool(client, 'run_code', { ...waiting, wait_s: 0.05 })
    const { execution_id } = live.structuredContent
    await client.close()
    await using other = await connectMcp(otherUrl, scene.acme, era)
    const found = await callTool(other, 'get_execution', { execution_id, wait_s: 0 })
    expect(['queued', 'running']).toContain(found.structuredContent.status)
    await callTool(other, 'cancel_execution', { execution_id })
    await untilEnding(execution_id)
  })
})

/** A bare message of the 2025 revisions. */
function legacyPost(address: string, session: string | null, body: object): Promise<Response> {
  const headers = {
    ...scene.acme,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2025-11-25',
    ...(session === null ? {} : { 'mcp-session-id': session }),
  }
  return fetch(address, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...body }) })
}

const legacyCall = (id: number) => ({
  id,
  method: 'tools/call',
  params: { name: 'run_code', arguments: waiting },
})
const cancelled = (requestId: number) => ({ method: 'notifications/cancelled', params: { requestId } })

describe('notifications/cancelled', () => {
  const initialize = {
    id: 0,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bare', version: '1' } },
  }
  const newSession = async (): Promise<string> => {
    const answer = await legacyPost(url, null, initialize)
    await answer.text()
    return answer.headers.get('mcp-session-id') ?? ''
  }

  it('cancels a call that another replica serves', async () => {
    const session = await newSession()
    const known = await liveIds()
    const call = legacyPost(url, session, legacyCall(7))
    const id = await newExecution(known)
    expect((await legacyPost(otherUrl, session, cancelled(7))).status).toBe(202)
    await untilEnding(id)
    expect(await (await call).text()).toContain('"ending":"cancelled"')
  })

  it('cancels a call that comes after it', async () => {
    const session = await newSession()
    expect((await legacyPost(otherUrl, session, cancelled(8))).status).toBe(202)
    expect(await (await legacyPost(url, session, legacyCall(8))).text()).toContain('"ending":"cancelled"')
  })

  it('leaves the call of another client with the same key and the same ID alone', async () => {
    const [mine, theirs] = [await newSession(), await newSession()]
    expect(mine).not.toBe(theirs)
    const known = await liveIds()
    const call = legacyPost(url, mine, legacyCall(9))
    const id = await newExecution(known)
    for (const session of [theirs, null])
      expect((await legacyPost(otherUrl, session, cancelled(9))).status).toBe(202)
    expect((await scene.producer.get(id))?.result).toBeNull()
    await legacyPost(otherUrl, mine, cancelled(9))
    await untilEnding(id)
    await (await call).text()
  })

  it('that is malformed does nothing', async () => {
    const session = await newSession()
    const odd = { method: 'notifications/cancelled', params: { requestId: { $gt: '' } } }
    expect((await legacyPost(url, session, odd)).status).toBeLessThan(500)
  })
})

describe('a connection that breaks', () => {
  it('cancels the execution', async () => {
    const broken = new AbortController()
    const known = await liveIds()
    const call = post(
      url,
      'tools/call',
      { name: 'run_code', arguments: waiting },
      { headers: scene.acme, signal: broken.signal, meta: { progressToken: 1 } },
    ).then((answer) => answer.text())
    call.catch(() => undefined)
    const id = await newExecution(known)
    broken.abort()
    await untilEnding(id)
    await expect(call).rejects.toThrow()
  })
})

describe('a replica that shuts down', () => {
  it('answers with the execution, which goes on', async () => {
    const replica = await scene.another()
    const address = await listenForMcp(replica)
    await using client = await connectMcp(address, scene.acme, '2026-07-28')
    const known = await liveIds()
    const call = callTool(client, 'run_code', waiting)
    const id = await newExecution(known)
    await replica.close()
    expect((await call).structuredContent).toMatchObject({ execution_id: id })
    expect((await scene.producer.get(id))?.result).toBeNull()
    expect(await scene.producer.cancel(id)).toBe('cancelling')
    await untilEnding(id)
  })
})

describe('an execution that nobody knows', () => {
  it('is not found', async () => {
    await using client = await connectMcp(url, scene.acme, '2026-07-28')
    const answer = await callTool(client, 'cancel_execution', { execution_id: newExecutionId() })
    expect(answer.text).toMatch(/^not_found: /)
  })
})
