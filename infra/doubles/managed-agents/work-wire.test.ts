/** The rules of the work queue, asked without the SDK. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startManagedAgents, type ManagedAgentsDouble } from './managed-agents-double.ts'
import { ask, claim, poll, tokenIn } from './sdk-judge.ts'

const SOON = 15_000
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/

let double: ManagedAgentsDouble
let work: string
beforeEach(async () => {
  double = await startManagedAgents()
  work = `/v1/environments/${double.environmentId}/work`
})
afterEach(() => double.close())

const asWorker = (method: string, path: string, body?: unknown) =>
  ask(double, method, work + path, { key: double.environmentKey, ...(body === undefined ? {} : { body }) })
const asOwner = (method: string, path: string, body?: unknown) =>
  ask(double, method, work + path, { key: double.apiKey, ...(body === undefined ? {} : { body }) })
const beat = (id: string, expected: string) =>
  asWorker('POST', `/${id}/heartbeat?expected_last_heartbeat=${encodeURIComponent(expected)}`)

describe('poll', () => {
  it('answers null at once when nothing is queued', async () => {
    expect(await asWorker('GET', '/poll')).toMatchObject({ status: 200, body: null })
  })

  it.each(['0', '1000', '-1', '1.5', 'x', ''])('refuses block_ms=%s', async (value) => {
    expect(await asWorker('GET', `/poll?block_ms=${value}`)).toMatchObject({
      status: 400,
      body: { type: 'error', error: { type: 'invalid_request_error' } },
    })
  })

  it('waits until an item comes', async () => {
    const answered = asWorker('GET', '/poll?block_ms=999')
    await expect.poll(() => double.requests.length, { timeout: SOON }).toBe(1)
    const session = double.createSession()
    expect(await answered).toMatchObject({
      body: { data: { type: 'session', id: session.id }, state: 'queued' },
    })
  })

  it('hands an item to one of two waiting polls', async () => {
    const polls = [1, 2].map(() => asWorker('GET', '/poll?block_ms=300'))
    await expect.poll(() => double.requests.length, { timeout: SOON }).toBe(2)
    double.createSession()
    const found = (await Promise.all(polls)).filter(({ body }) => body !== null)
    expect(found).toHaveLength(1)
    expect(double.items[0]?.deliveries).toBe(1)
  })

  it('does not hand an item to a client that has gone', async () => {
    const gone = new AbortController()
    const headers = { authorization: `Bearer ${double.environmentKey}`, 'anthropic-version': '2023-06-01' }
    const asked = fetch(`${double.url}${work}/poll?block_ms=999`, { headers, signal: gone.signal })
    await expect.poll(() => double.requests.length, { timeout: SOON }).toBe(1)
    gone.abort()
    await expect(asked).rejects.toThrow()
    const again = asWorker('GET', '/poll?block_ms=999')
    await expect.poll(() => double.requests.length, { timeout: SOON }).toBe(2)
    double.createSession()
    expect((await again).body).not.toBeNull()
  })

  it('offers an item again only after reclaim_older_than_ms', async () => {
    double.createSession()
    expect((await asWorker('GET', '/poll')).body).not.toBeNull()
    expect((await asWorker('GET', '/poll')).body).toBeNull()
    const waited = await asWorker('GET', '/poll?block_ms=999&reclaim_older_than_ms=30')
    expect(waited.body).toMatchObject({ id: double.items[0]?.id })
  })

  it('shows every field that is published, and a secret only here', async () => {
    double.createSession()
    const polled = await poll(double)
    expect(polled).toEqual({
      id: expect.stringMatching(/^work_/),
      type: 'work',
      environment_id: double.environmentId,
      data: { type: 'session', id: expect.stringMatching(/^sesn_/) },
      state: 'queued',
      created_at: expect.stringMatching(TIMESTAMP),
      acknowledged_at: null,
      started_at: null,
      latest_heartbeat_at: null,
      stop_requested_at: null,
      stopped_at: null,
      metadata: {},
      secret: expect.stringMatching(/^[\w-]+$/),
    })
    expect(polled === null ? '' : tokenIn(polled)).toMatch(/^sk-ant-req-/)
    expect((await asWorker('POST', `/${polled?.id}/ack`)).body).toMatchObject({ secret: null })
    expect((await asOwner('GET', `/${polled?.id}`)).body).toMatchObject({ secret: null })
  })
})

describe('ack', () => {
  it('takes the item off the queue, and may be repeated', async () => {
    double.createSession()
    const { id } = await claim(double)
    for (let n = 0; n < 2; n += 1)
      expect((await asWorker('POST', `/${id}/ack`)).body).toMatchObject({
        state: 'starting',
        acknowledged_at: double.items[0]?.acknowledged_at,
      })
    expect((await asWorker('GET', '/poll?reclaim_older_than_ms=0')).body).toBeNull()
  })

  it('answers 404 for an item that does not exist and 409 for one that is stopped', async () => {
    double.createSession()
    const { id } = await claim(double)
    await asWorker('POST', `/${id}/stop`, { force: true })
    expect(await asWorker('POST', `/${id}/ack`)).toMatchObject({
      status: 409,
      body: { error: { type: 'conflict_error' } },
    })
    expect(await asWorker('POST', '/work_none/ack')).toMatchObject({
      status: 404,
      body: { error: { type: 'not_found_error' } },
    })
  })
})

describe('heartbeat', () => {
  it('begins with NO_HEARTBEAT and goes on with the last value', async () => {
    double.createSession()
    const { id } = await claim(double)
    const first = await beat(id, 'NO_HEARTBEAT')
    expect(first.body).toEqual({
      type: 'work_heartbeat',
      last_heartbeat: expect.stringMatching(TIMESTAMP),
      lease_extended: true,
      state: 'active',
      ttl_seconds: 300,
    })
    const { last_heartbeat: last } = first.body as { last_heartbeat: string }
    const second = await beat(id, last)
    expect(second.status).toBe(200)
    expect(await beat(id, last)).toMatchObject({
      status: 412,
      body: {
        error: {
          details: {
            error_code: 'heartbeat_precondition_failed',
            current_state: {
              state: 'active',
              last_heartbeat: (second.body as { last_heartbeat: string }).last_heartbeat,
              lease_extended: false,
              ttl_seconds: 300,
            },
          },
        },
      },
    })
    expect((await beat(id, 'NO_HEARTBEAT')).status).toBe(412)
    // The same moment, printed with fewer digits, is another value.
    const { last_heartbeat: now } = second.body as { last_heartbeat: string }
    expect((await beat(id, new Date(now).toISOString())).status).toBe(412)
  })

  it('refuses a value that is neither a time nor NO_HEARTBEAT, and an item that nobody acknowledged', async () => {
    double.createSession()
    const { id } = (await poll(double)) ?? { id: '' }
    expect((await beat(id, 'yesterday')).status).toBe(400)
    expect((await beat(id, 'NO_HEARTBEAT')).status).toBe(409)
  })

  it.each([
    [60, 60],
    [1, 10],
    [10_000, 600],
  ])('gives a desired ttl of %d seconds as %d', async (desired, given) => {
    double.createSession()
    const { id } = await claim(double)
    expect((await asWorker('POST', `/${id}/heartbeat?desired_ttl_seconds=${desired}`)).body).toMatchObject({
      ttl_seconds: given,
    })
  })

  it('tells the holder of an expired item that it is queued', async () => {
    double.configure({ ttl_seconds: 0.1 })
    double.createSession()
    const { id } = await claim(double)
    const first = await beat(id, 'NO_HEARTBEAT')
    await expect.poll(() => double.items[0]?.state, { timeout: SOON }).toBe('queued')
    const { last_heartbeat: last } = first.body as { last_heartbeat: string }
    expect(await beat(id, last)).toMatchObject({
      status: 412,
      body: { error: { details: { current_state: { state: 'queued', last_heartbeat: null } } } },
    })
    expect((await asOwner('GET', `/${id}`)).body).toMatchObject({
      latest_heartbeat_at: null,
      started_at: null,
    })
  })

  it('does not extend the lease of an item that is asked to stop, whatever the value', async () => {
    double.createSession()
    const { id } = await claim(double)
    await beat(id, 'NO_HEARTBEAT')
    await asOwner('POST', `/${id}/stop`)
    expect((await beat(id, 'NO_HEARTBEAT')).body).toMatchObject({ state: 'stopping', lease_extended: false })
    await asOwner('POST', `/${id}/stop`)
    expect((await beat(id, 'NO_HEARTBEAT')).body).toMatchObject({ state: 'stopped', lease_extended: false })
  })
})

it('a stop takes two steps, and a third one is a conflict', async () => {
  double.createSession()
  const { id } = await claim(double)
  expect((await asOwner('POST', `/${id}/stop`, { force: false })).body).toMatchObject({
    state: 'stopping',
    stop_requested_at: expect.stringMatching(TIMESTAMP),
    stopped_at: null,
  })
  expect((await asWorker('POST', `/${id}/stop`, { force: false })).body).toMatchObject({
    state: 'stopped',
    stopped_at: expect.stringMatching(TIMESTAMP),
  })
  expect((await asWorker('POST', `/${id}/stop`, { force: true })).status).toBe(409)
  expect((await asWorker('POST', `/${id}/stop`, { force: 'yes' })).status).toBe(400)
})

it('a request needs the version header, and sessions need the beta header', async () => {
  const session = double.createSession()
  const key = double.apiKey
  const without = await fetch(`${double.url}${work}/stats`, { headers: { 'x-api-key': key } })
  expect(without.status).toBe(400)
  const headers = { 'anthropic-beta': 'something-else' }
  expect((await ask(double, 'GET', `/v1/sessions/${session.id}`, { key, headers })).status).toBe(400)
  expect((await ask(double, 'GET', `${work}/stats`, { key, headers })).status).toBe(200)
})

it('errors carry a request ID in the body and in the header', async () => {
  const { status, body, headers } = await ask(double, 'GET', '/v1/nothing', { key: double.apiKey })
  expect(status).toBe(404)
  expect(body).toMatchObject({ type: 'error', request_id: headers.get('request-id') })
})

it('a body that is not JSON is answered with 400', async () => {
  double.createSession()
  const { id } = await claim(double)
  expect((await asWorker('POST', `/${id}/stop`, '{')).status).toBe(400)
})

it('a body of more than 32 MiB is answered with 413', async () => {
  const large = 'x'.repeat(32 * 1024 * 1024)
  expect(await asWorker('POST', '/work_none/ack', { large })).toMatchObject({
    status: 413,
    body: { error: { type: 'request_too_large' } },
  })
})
