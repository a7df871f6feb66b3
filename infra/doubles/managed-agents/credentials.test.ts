/** Which credential opens which endpoint, asked without the SDK. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { startManagedAgents, type ManagedAgentsDouble } from './managed-agents-double.ts'
import { ask, claim, tokenIn, workPath } from './sdk-judge.ts'

let double: ManagedAgentsDouble
let work: string
beforeEach(async () => {
  double = await startManagedAgents()
  work = `/v1/environments/${double.environmentId}/work`
})
afterEach(() => double.close())

it.each([
  ['none', {}],
  ['an unknown bearer token', { authorization: 'Bearer sk-ant-oat01-x' }],
  ['an unknown API key', { 'x-api-key': 'sk-ant-api03-x' }],
  ['another scheme', { authorization: 'Basic eDp5' }],
])('%s is answered with 401', async (_, headers) => {
  expect(await ask(double, 'GET', `${work}/stats`, { headers })).toMatchObject({
    status: 401,
    body: {
      type: 'error',
      error: { type: 'authentication_error' },
      request_id: expect.stringMatching(/^req_/),
    },
  })
})

it('an API key may come in either header, or the same in both', async () => {
  const bearer = { authorization: `Bearer ${double.apiKey}` }
  const plain = { 'x-api-key': double.apiKey }
  for (const headers of [bearer, plain, { ...bearer, ...plain }])
    expect((await ask(double, 'GET', `${work}/stats`, { headers })).status).toBe(200)
})

it('two different credentials, and an environment key as x-api-key, are answered with 401', async () => {
  const both = { authorization: `Bearer ${double.environmentKey}`, 'x-api-key': double.apiKey }
  for (const headers of [both, { 'x-api-key': double.environmentKey }])
    expect((await ask(double, 'GET', `${work}/poll`, { headers })).status).toBe(401)
})

it('each endpoint of the queue takes the credentials that are published for it', async () => {
  double.createSession()
  const item = await claim(double)
  const token = tokenIn(item)
  const calls: [string, string][] = [
    ['GET', '/poll'],
    ['GET', '/stats'],
    ['GET', ''],
    ['GET', `/${item.id}`],
    ['POST', `/${item.id}`],
    ['POST', `/${item.id}/ack`],
    ['POST', `/${item.id}/heartbeat`],
    ['POST', `/${item.id}/stop`],
  ]
  const body = { metadata: {} }
  const matrix = await Promise.all(
    calls.map(async ([method, path]) => {
      const keys = [double.apiKey, double.environmentKey, token]
      const answers = keys.map((key) =>
        ask(double, method, work + path, {
          key,
          ...(path === `/${item.id}` && method === 'POST' ? { body } : {}),
        }),
      )
      return (await Promise.all(answers)).map(({ status }) => (status === 403 ? 'no' : 'yes')).join(' ')
    }),
  )
  expect(
    Object.fromEntries(
      calls.map(([method, path], n) => [`${method} ${path.replace(item.id, 'ID')}`, matrix[n]]),
    ),
  ).toEqual({
    'GET /poll': 'no yes no',
    'GET /stats': 'yes no no',
    'GET ': 'no yes no',
    'GET /ID': 'yes no no',
    'POST /ID': 'yes no no',
    'POST /ID/ack': 'no yes yes',
    'POST /ID/heartbeat': 'no yes yes',
    'POST /ID/stop': 'yes yes yes',
  })
})

it('an environment key opens no other environment', async () => {
  const other = double.createEnvironment()
  const session = double.createSession({ environmentId: other.id })
  const key = double.environmentKey
  expect((await ask(double, 'GET', workPath(other.id, 'poll'), { key })).status).toBe(403)
  expect((await ask(double, 'GET', `/v1/sessions/${session.id}`, { key })).status).toBe(403)
  expect((await ask(double, 'GET', `/v1/sessions/${session.id}`, { key: other.key })).status).toBe(200)
})

it('the token of an item opens its item and its session alone', async () => {
  const [mine, other] = [double.createSession(), double.createSession()]
  const [first, second] = [await claim(double), await claim(double)]
  const key = tokenIn(first)
  const statuses = await Promise.all(
    [
      ['GET', `/v1/sessions/${mine.id}`],
      ['GET', `/v1/sessions/${other.id}`],
      ['GET', `/v1/sessions/${other.id}/events`],
      ['POST', `/v1/sessions/${other.id}/events`],
      ['GET', `/v1/sessions/${other.id}/events/stream`],
      ['POST', `${work}/${first.id}/heartbeat`],
      ['POST', `${work}/${second.id}/heartbeat`],
      ['POST', `${work}/${second.id}/stop`],
      ['GET', '/v1/sessions'],
    ].map(async ([method = '', path = '']) => (await ask(double, method, path, { key })).status),
  )
  expect(statuses).toEqual([200, 403, 403, 403, 403, 200, 403, 403, 403])
})

it('the token of a healthcheck opens no session', async () => {
  const item = double.enqueue('healthcheck')
  const work = await claim(double)
  expect(work).toMatchObject({ id: item.id, data: { type: 'healthcheck' } })
  const session = double.createSession()
  expect((await ask(double, 'GET', `/v1/sessions/${session.id}`, { key: tokenIn(work) })).status).toBe(403)
})
