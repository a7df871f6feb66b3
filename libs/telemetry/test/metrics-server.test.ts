import { expect, it } from 'vitest'
import { createMetricsServer } from '../src/index.ts'

it('the server serves metrics, liveness and readiness, and nothing else', async () => {
  let why: string | null = null
  const server = await createMetricsServer({
    host: '127.0.0.1',
    port: 0,
    metrics: async () => ({ contentType: 'text/plain; version=0.0.4; charset=utf-8', body: 'up 1\n' }),
    notReady: () => why,
  })
  const get = async (path: string, method = 'GET') => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, { method })
    return [response.status, await response.text(), response.headers.get('content-type')]
  }
  expect(await get('/metrics?x=1')).toEqual([200, 'up 1\n', 'text/plain; version=0.0.4; charset=utf-8'])
  expect((await get('/healthz'))[0]).toBe(200)
  expect((await get('/readyz'))[0]).toBe(200)
  why = 'draining'
  expect((await get('/readyz')).slice(0, 2)).toEqual([503, 'draining\n'])
  expect((await get('/healthz'))[0]).toBe(200)
  expect([(await get('/'))[0], (await get('/metrics', 'POST'))[0]]).toEqual([404, 405])
  await server[Symbol.asyncDispose]()
  await expect(fetch(`http://127.0.0.1:${server.port}/healthz`)).rejects.toThrow()
})

it('the server fails one request if metrics cannot be read, and continues', async () => {
  await using server = await createMetricsServer({
    host: '127.0.0.1',
    port: 0,
    metrics: () => Promise.reject(new Error('no')),
    notReady: () => null,
  })
  await expect(fetch(`http://127.0.0.1:${server.port}/metrics`)).rejects.toThrow()
  expect((await fetch(`http://127.0.0.1:${server.port}/healthz`)).status).toBe(200)
})
