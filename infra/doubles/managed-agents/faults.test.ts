/** Failures and settings that change while the double runs. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { startManagedAgents, type ManagedAgentsDouble } from './managed-agents-double.ts'
import { ask, workPath } from './sdk-judge.ts'

const BETA = 'managed-agents-2026-04-01'
let double: ManagedAgentsDouble
beforeEach(async () => {
  double = await startManagedAgents()
})
afterEach(() => double.close())

const stats = () => ask(double, 'GET', workPath(double.environmentId, 'stats'), { key: double.apiKey })

it('a status happens to the n-th call and to as many as asked', async () => {
  double.inject({ kind: 'status', route: 'work.stats', status: 429, nth: 2, times: 2, retry_after_ms: 7 })
  const answers = []
  for (let n = 0; n < 4; n += 1) answers.push(await stats())
  expect(answers.map(({ status }) => status)).toEqual([200, 429, 429, 200])
  expect(answers[1]?.headers.get('retry-after-ms')).toBe('7')
  expect(answers[1]?.body).toMatchObject({ error: { type: 'rate_limit_error' } })
  expect(double.faultsLeft).toEqual([])
})

it.each([
  [429, 'rate_limit_error'],
  [500, 'api_error'],
  [504, 'timeout_error'],
  [529, 'overloaded_error'],
])('an injected %d has the type %s', async (status, type) => {
  double.inject({ kind: 'status', route: 'work.stats', status })
  expect(await stats()).toMatchObject({ status, body: { error: { type } } })
})

it('a slow answer comes late', async () => {
  double.inject({ kind: 'delay', route: 'work.stats', ms: 60 })
  const startedAt = performance.now()
  await stats()
  expect(performance.now() - startedAt).toBeGreaterThan(50)
})

it('a call that is delayed before it acts does nothing if its client goes, and ends when faults are cleared', async () => {
  const session = double.createSession({ script: [{ idle: 'end_turn' }] })
  await session.untilIdle()
  const archive = (signal?: AbortSignal) =>
    fetch(`${double.url}/v1/sessions/${session.id}/archive`, {
      method: 'POST',
      headers: { 'x-api-key': double.apiKey, 'anthropic-version': '2023-06-01', 'anthropic-beta': BETA },
      ...(signal === undefined ? {} : { signal }),
    })
  double.inject({ kind: 'delay', route: 'sessions.archive', ms: 600_000, before: true, times: 2 })
  const gone = new AbortController()
  const first = archive(gone.signal)
  await expect.poll(() => double.requests.at(-1)?.route).toBe('sessions.archive')
  gone.abort()
  await expect(first).rejects.toThrow()
  const second = archive()
  await expect.poll(() => double.faultsLeft).toEqual([])
  expect(session.status).toBe('idle')
  double.clearFaults()
  expect((await second).status).toBe(200)
  expect(session.status).toBe('terminated')
})

it('a fault with an ID happens only to calls whose path has it', async () => {
  const ids = [double.environmentId, double.createEnvironment().id]
  double.inject({ kind: 'status', route: 'work.stats', status: 529, id: ids[1] ?? '' })
  const statusOf = async (id = '') =>
    (await ask(double, 'GET', workPath(id, 'stats'), { key: double.apiKey })).status
  expect([await statusOf(ids[0]), await statusOf(ids[1]), await statusOf(ids[1])]).toEqual([200, 529, 200])
})

it.each([true, false])('a connection breaks and the call acts: %s', async (acts) => {
  double.inject({ kind: 'drop', route: 'events.send', acts })
  const session = double.createSession({ script: [{ message: 'a' }, { idle: 'end_turn' }] })
  await session.untilIdle()
  const before = session.events.length
  const events = [{ type: 'user.message', content: [{ type: 'text', text: 'hello' }] }]
  const asked = ask(double, 'POST', `/v1/sessions/${session.id}/events`, {
    key: double.apiKey,
    body: { events },
  })
  await expect(asked).rejects.toThrow()
  expect(session.events.length > before).toBe(acts)
  expect(double.requests.at(-1)?.status).toBeNull()
})

it('a fault for a route that does not exist is refused', () => {
  expect(() => double.inject({ kind: 'status', route: 'work.steal', status: 500 })).toThrow(
    'work.poll, work.stats',
  )
  expect(() => double.inject({ kind: 'status', route: 'work.poll', status: 200 })).toThrow()
})

it('faults and settings can be given over HTTP with the API key', async () => {
  const key = double.apiKey
  const fault = { kind: 'status', route: 'work.stats', status: 503 }
  expect((await ask(double, 'POST', '/_double/inject', { key, body: fault })).body).toEqual({
    left: [{ ...fault, nth: 1, times: 1 }],
  })
  expect((await stats()).status).toBe(503)
  const changed = await ask(double, 'POST', '/_double/settings', { key, body: { ttl_seconds: 20 } })
  expect(changed.body).toEqual({ ttl_seconds: 20, reclaim_ms: 5000, ping_ms: 15_000, secrets: 'usable' })
  for (const body of [{ ttl_seconds: 0 }, { ttl: 3 }])
    expect((await ask(double, 'POST', '/_double/settings', { key, body })).status).toBe(400)
  const plain = { method: 'POST', headers: { 'x-api-key': key }, body: '{"ping_ms": 9}' }
  expect((await fetch(`${double.url}/_double/settings`, plain)).status).toBe(200)
  const refused = await ask(double, 'POST', '/_double/inject', { key: double.environmentKey, body: fault })
  expect(refused.status).toBe(403)
})
