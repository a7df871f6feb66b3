import { resultSchema } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { execution, openScene, type Scene } from './scene.ts'

let scene: Scene
let big: string
let small: string
beforeAll(async () => {
  scene = await openScene()
  ;[big, small] = [await run('big'), await run('small')]
})
afterAll(() => scene?.[Symbol.asyncDispose]())

async function run(source: string): Promise<string> {
  const reply = await scene.call({
    method: 'POST',
    url: '/v1/executions?wait=30s',
    payload: execution(source),
  })
  return resultSchema.parse(reply.json).execution_id
}

const get = (url: string, headers: Record<string, string> = {}) => scene.call({ url, headers })

describe('GET /v1/executions/{id}/output/{stream}', () => {
  it('sends the full output, not the truncated text of the result', async () => {
    const reply = await get(`/v1/executions/${big}/output/stdout`, scene.acme)
    expect(reply).toMatchObject({
      status: 200,
      headers: {
        'content-type': 'text/plain; charset=utf-8',
        'content-length': '1000000',
        'accept-ranges': 'bytes',
        'x-content-type-options': 'nosniff',
      },
    })
    expect(reply.text).toBe('é'.repeat(500_000))
  })

  it('sends the text of the result when the output is small', async () => {
    expect((await get(`/v1/executions/${small}/output/stdout`)).text).toBe('small\n')
    expect(await get(`/v1/executions/${small}/output/stderr`)).toMatchObject({ status: 200, text: '' })
  })

  it.each([
    ['bytes=0-9', 206, 'bytes 0-9/1000000', 'ééééé'],
    ['bytes=-4', 206, 'bytes 999996-999999/1000000', 'éé'],
    ['bytes=999998-', 206, 'bytes 999998-999999/1000000', 'é'],
    ['bytes=999998-2000000', 206, 'bytes 999998-999999/1000000', 'é'],
  ])('answers the range %s with 206 and that part', async (range, status, contentRange, text) => {
    const reply = await get(`/v1/executions/${big}/output/stdout`, { range })
    expect(reply).toMatchObject({ status, headers: { 'content-range': contentRange }, text })
  })

  it('answers a range outside the output with 416 and the total size', async () => {
    const reply = await get(`/v1/executions/${big}/output/stdout`, { range: 'bytes=1000000-' })
    expect(reply).toMatchObject({
      status: 416,
      headers: { 'content-range': 'bytes */1000000' },
      json: { error: { code: 'range_not_satisfiable', details: { total: 1_000_000 } } },
    })
  })

  it('sends everything for several ranges, another unit or an invalid range', async () => {
    for (const range of ['bytes=0-1,5-6', 'lines=1-2', 'bytes=5-1']) {
      expect((await get(`/v1/executions/${small}/output/stdout`, { range })).status).toBe(200)
    }
  })

  it('sends a part only if If-Range matches, and 304 if If-None-Match matches', async () => {
    const url = `/v1/executions/${big}/output/stdout`
    const etag = String((await get(url)).headers['etag'])
    expect((await get(url, { range: 'bytes=0-1', 'if-range': etag })).status).toBe(206)
    expect((await get(url, { range: 'bytes=0-1', 'if-range': '"other"' })).status).toBe(200)
    expect((await get(url, { 'if-none-match': etag })).status).toBe(304)
  })

  it('answers HEAD with the size and no body', async () => {
    const reply = await scene.call({ method: 'HEAD', url: `/v1/executions/${big}/output/stdout` })
    expect(reply).toMatchObject({ status: 200, headers: { 'content-length': '1000000' }, text: '' })
  })

  it('answers 404 for another tenant and 400 for an unknown stream', async () => {
    expect((await get(`/v1/executions/${big}/output/stdout`, scene.globex)).status).toBe(404)
    expect((await get(`/v1/executions/${big}/output/stdin`)).status).toBe(400)
  })

  it('answers 409 while the execution has not ended, and 503 until its record is stored', async () => {
    const { json } = await scene.call({
      method: 'POST',
      url: '/v1/executions',
      payload: execution('x', { delay_ms: 3_600_000 }),
    })
    const expectEach = async (status: number, code: string): Promise<void> => {
      for (const part of ['output/stdout', 'artifacts', 'artifacts/a', `compare?with=${json.execution_id}`]) {
        const reply = await get(`/v1/executions/${json.execution_id}/${part}`)
        expect(reply).toMatchObject({ status, json: { error: { code } } })
      }
    }
    await expectEach(409, 'conflict')
    await scene.call({ method: 'POST', url: `/v1/executions/${json.execution_id}/cancel` })
    // No worker runs here that would move the record from Redis to Postgres.
    await expectEach(503, 'store_unavailable')
  })
})

describe('artifacts', () => {
  it('are listed, and are always sent as a download', async () => {
    const list = await get(`/v1/executions/${big}/artifacts`, scene.acme)
    expect(list.json).toEqual({
      artifacts: [{ path: 'out/näme.bin', size: 4, sha256: 'a'.repeat(64) }],
    })
    const reply = await get(`/v1/executions/${big}/artifacts/out/n%C3%A4me.bin`, scene.acme)
    expect(reply).toMatchObject({
      status: 200,
      text: 'data',
      headers: {
        'content-type': 'text/plain; charset=utf-8',
        'x-content-type-options': 'nosniff',
        'content-disposition': `attachment; filename="n_me.bin"; filename*=UTF-8''n%C3%A4me.bin`,
        'content-security-policy': expect.stringContaining('sandbox'),
      },
    })
    const part = await get(`/v1/executions/${big}/artifacts/out/n%C3%A4me.bin`, { range: 'bytes=1-2' })
    expect(part).toMatchObject({ status: 206, text: 'at' })
  })

  it.each([
    ['out/other.bin', 404],
    ['out', 404],
    ['..%2F..%2Fetc%2Fpasswd', 400],
    ['%2Fetc%2Fpasswd', 400],
    ['a%00b', 400],
    ['', 400],
  ])('answer the path %j with status %i', async (path, status) => {
    expect((await get(`/v1/executions/${big}/artifacts/${path}`)).status).toBe(status)
  })

  it('answer 404 for another tenant', async () => {
    expect((await get(`/v1/executions/${big}/artifacts`, scene.globex)).status).toBe(404)
    expect((await get(`/v1/executions/${big}/artifacts/out/n%C3%A4me.bin`, scene.globex)).status).toBe(404)
  })
})
