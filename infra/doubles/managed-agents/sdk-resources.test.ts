/** Skills, memory stores, history, stats and sessions, judged by Anthropic's own SDK. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  betaAgentToolset20260401,
  SessionMemoryStores,
  setupSkills,
} from '@anthropic-ai/sdk/tools/agent-toolset/node'
import { needs } from '@cofferdam/embedded/needs'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { startManagedAgents, type ManagedAgentsDouble } from './managed-agents-double.ts'
import { claim, clientOf, handOver, poll, textOfResult, tokenIn, tool, workerClientOf } from './sdk-judge.ts'
import type { Session } from './session.ts'

/** The SDK unpacks archives with this program. */
const withUnzip = needs('unzip')

let double: ManagedAgentsDouble
let workdir: string
beforeEach(async () => {
  double = await startManagedAgents()
  workdir = await mkdtemp(join(tmpdir(), 'managed-agents-'))
})
afterEach(async () => {
  await double.close()
  await rm(workdir, { recursive: true })
})

/** The stores of a session on disk, as the SDK's worker makes them. */
async function memoryOf(session: Session): Promise<SessionMemoryStores> {
  const client = clientOf(double, { apiKey: null, authToken: tokenIn(await claim(double)) })
  const stores = new SessionMemoryStores(client, { workdir })
  await stores.download(await client.beta.sessions.retrieve(session.id))
  return stores
}

withUnzip.it.each([true, false])('the SDK unpacks a skill into the workdir (pinned: %s)', async (pinned) => {
  const session = double.createSession({
    skills: [{ name: 'invoices', pinned, files: { 'SKILL.md': '# Invoices', 'scripts/sum.py': 'print(1)' } }],
  })
  const client = workerClientOf(double)
  const clean = await setupSkills({
    workdir,
    client,
    session: await client.beta.sessions.retrieve(session.id),
  })
  expect(await readFile(join(workdir, 'skills/invoices/SKILL.md'), 'utf8')).toBe('# Invoices')
  expect(await readFile(join(workdir, 'skills/invoices/scripts/sum.py'), 'utf8')).toBe('print(1)')
  await clean()
  await expect(readFile(join(workdir, 'skills/invoices/SKILL.md'))).rejects.toThrow('ENOENT')
})

withUnzip.it('a worker’s tools see the skills of the session', async () => {
  const session = double.createSession({
    skills: [{ name: 'invoices', files: { 'SKILL.md': '# Invoices' } }],
    script: [{ tool_use: { name: 'read', input: { file_path: 'skills/invoices/SKILL.md' } } }],
  })
  await clientOf(double)
    .beta.environments.work.worker({ workdir, maxIdleMs: 50, tools: (ctx) => betaAgentToolset20260401(ctx) })
    .handleItem(handOver(await claim(double)))
  expect(textOfResult((await session.untilAnswered())[0])).toContain('# Invoices')
})

it('the SDK downloads a memory store, uploads changes, and deletes what was removed', async () => {
  const mount = join(workdir, 'memory', 'team')
  const many = Object.fromEntries(Array.from({ length: 45 }, (_, n) => [`/many/${n}.md`, `note ${n}`]))
  const session = double.createSession({
    memoryStores: [
      { name: 'Team notes', mountPath: mount, memories: { '/a.md': 'one', '/b.md': 'two', ...many } },
    ],
  })
  const [resource] = session.profile.resources
  const store = double.memoryStore(resource?.type === 'memory_store' ? resource.memory_store_id : '')
  const stores = await memoryOf(session)
  expect(await readFile(join(mount, 'a.md'), 'utf8')).toBe('one')
  expect(await readFile(join(mount, 'many/44.md'), 'utf8')).toBe('note 44')
  await writeFile(join(mount, 'a.md'), 'one, changed')
  await writeFile(join(mount, 'c.md'), 'three')
  await rm(join(mount, 'b.md'))
  await stores.finish()
  expect(store.contents).toEqual({ ...many, '/a.md': 'one, changed', '/c.md': 'three' })
  await stores.dispose()
  // Full pages hold 20 memories, basic ones up to 100.
  const pages = double.requests
    .filter(({ route }) => route === 'memories.list')
    .map(({ query }) => query['view'])
  expect(pages).toEqual(['full', 'full', 'full', 'basic'])
})

it('the SDK keeps the server’s version of a memory that changed on both sides', async () => {
  const mount = join(workdir, 'notes')
  const session = double.createSession({
    memoryStores: [{ name: 'Notes', mountPath: mount, memories: { '/a.md': 'one' } }],
  })
  const [resource] = session.profile.resources
  const store = double.memoryStore(resource?.type === 'memory_store' ? resource.memory_store_id : '')
  const stores = await memoryOf(session)
  const [memory] = store.list({ depth: 0, view: 'basic' })
  store.update(memory?.type === 'memory' ? memory.id : '', { content: 'theirs' })
  await writeFile(join(mount, 'a.md'), 'mine')
  await stores.finish()
  expect(await readFile(join(mount, 'a.md'), 'utf8')).toBe('theirs')
  expect(store.contents).toEqual({ '/a.md': 'theirs' })
  await stores.dispose()
})

it('a worker without a usable secret fails the item of a session with memory', async () => {
  double.configure({ secrets: 'absent' })
  double.createSession({ memoryStores: [{ name: 'Notes' }] })
  const work = await claim(double)
  expect(work.secret).toBeNull()
  const { environmentKey } = double
  const worker = clientOf(double).beta.environments.work.worker({
    workdir,
    tools: [tool('echo', () => 'ok')],
  })
  await expect(worker.handleItem({ ...handOver(work), environmentKey })).rejects.toThrow('no sessions token')
  expect(double.items[0]?.state).toBe('stopped')
})

it('a worker falls back to the environment key when the secret cannot be decoded', async () => {
  double.configure({ secrets: 'broken' })
  const session = double.createSession({ script: [{ tool_use: { name: 'echo' } }] })
  const { environmentKey } = double
  await clientOf(double)
    .beta.environments.work.worker({ workdir, maxIdleMs: 50, tools: [tool('echo', () => 'ok')] })
    .handleItem({ ...handOver(await claim(double)), environmentKey })
  expect((await session.untilAnswered()).map(textOfResult)).toEqual(['ok'])
})

it('the SDK pages through a session’s history in either order and by type', async () => {
  const session = double.createSession({ script: [{ message: 'a' }, { message: 'b' }, { message: 'c' }] })
  await session.untilIdle()
  const { events } = clientOf(double).beta.sessions
  const ids = session.events.map((event) => ('id' in event ? event.id : ''))
  const asc = await Array.fromAsync(events.list(session.id, { limit: 2 }), ({ id }) => id)
  expect(asc).toEqual(ids)
  const desc = await Array.fromAsync(events.list(session.id, { limit: 4, order: 'desc' }), ({ id }) => id)
  expect(desc).toEqual(ids.toReversed())
  const said = await Array.fromAsync(events.list(session.id, { types: ['agent.message'], limit: 1 }))
  expect(said.map(({ type }) => type)).toEqual(['agent.message', 'agent.message', 'agent.message'])
})

it('stats count what waits, what nobody acknowledged, and who polls', async () => {
  const { work } = clientOf(double).beta.environments
  const empty = {
    type: 'work_queue_stats',
    depth: 0,
    pending: 0,
    oldest_queued_at: null,
    workers_polling: null,
  }
  expect(await work.stats(double.environmentId)).toEqual(empty)
  for (let n = 0; n < 3; n += 1) double.createSession()
  await poll(double)
  const worker = workerClientOf(double).beta.environments.work
  for (const id of ['w1', 'w2', 'w1'])
    await worker.poll(double.environmentId, { 'Anthropic-Worker-ID': id, reclaim_older_than_ms: 60_000 })
  await worker.ack(double.items[0]?.id ?? '', { environment_id: double.environmentId })
  expect(await work.stats(double.environmentId)).toEqual({
    type: 'work_queue_stats',
    depth: 0,
    pending: 2,
    oldest_queued_at: double.items[1]?.created_at,
    workers_polling: 2,
  })
})

it('a session has at most 16 pairs of metadata', async () => {
  const create = async (pairs: number): Promise<unknown> => {
    const metadata = Object.fromEntries(Array.from({ length: pairs }, (_, n) => [`key-${n}`, 'value']))
    const { sessions } = clientOf(double).beta
    return await sessions.create({ agent: 'agent_1', environment_id: double.environmentId, metadata })
  }
  expect(await create(16)).toMatchObject({ metadata: { 'key-15': 'value' } })
  await expect(create(17)).rejects.toMatchObject({ status: 400, type: 'invalid_request_error' })
})

it('an owner creates, lists, reads, updates, archives and deletes with the API key', async () => {
  const { sessions, environments } = clientOf(double).beta
  const created = await sessions.create({
    agent: 'agent_1',
    environment_id: double.environmentId,
    title: 'T',
    initial_events: [{ type: 'user.message', content: [{ type: 'text', text: 'hello' }] }],
  })
  expect(created).toMatchObject({ agent: { id: 'agent_1' }, status: 'idle', title: 'T' })
  await double.session(created.id).untilIdle()
  const other = double.createSession()
  expect(await Array.fromAsync(sessions.list({ limit: 1 }), ({ id }) => id)).toEqual([other.id, created.id])
  const [item] = double.items
  const at = { environment_id: double.environmentId }
  await environments.work.update(item?.id ?? '', { ...at, metadata: { a: '1', b: '2' } })
  const updated = await environments.work.update(item?.id ?? '', { ...at, metadata: { a: null } })
  expect(updated.metadata).toEqual({ b: '2' })
  expect(await environments.work.retrieve(item?.id ?? '', at)).toEqual(updated)
  expect(await sessions.archive(created.id)).toMatchObject({ status: 'terminated' })
  expect(await sessions.delete(created.id)).toEqual({ id: created.id, type: 'session_deleted' })
  await expect(sessions.retrieve(created.id)).rejects.toMatchObject({ status: 404, type: 'not_found_error' })
})

it('a worker lists the items of its environment', async () => {
  for (let n = 0; n < 3; n += 1) double.createSession()
  const { work } = workerClientOf(double).beta.environments
  const listed = await Array.fromAsync(work.list(double.environmentId, { limit: 2 }))
  expect(listed.map(({ id }) => id)).toEqual(double.items.map(({ id }) => id).toReversed())
  expect(listed.map(({ secret }) => secret)).toEqual([null, null, null])
})
