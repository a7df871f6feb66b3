/** Outputs, artifacts and kept programs of a whole fleet in a bucket. */
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { fakeRequest } from '../faults/accounts.ts'
import { startBucketFleet, type BucketFleet } from '../bucket-fleet.ts'

const DAY_MS = 86_400_000
const MiB = 1024 * 1024
const LINE = 'sixteen letters\n'
/** A bucket gets parts of 5 MiB, so this text is stored in two. */
const TEXT = LINE.repeat((6 * MiB) / LINE.length)
/** Stored with three hashes. The API reads it in three ranges. */
const LARGE = LINE.repeat(600_000 / LINE.length)

let t: BucketFleet
beforeAll(async () => {
  t = await startBucketFleet('acme', `k1:${randomBytes(32).toString('base64')}`)
  await t.fleet.startWorker({ COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '2' })
})
afterAll(() => t?.[Symbol.asyncDispose]())

/** Prints 6 MiB, leaves two artifacts, and fails, so that its program is kept. */
async function run(): Promise<string> {
  const request = fakeRequest('acme', [
    { write_file: { path: 'report.txt', content: 'a report' } },
    { write_file: { path: 'data/large.bin', content: LARGE } },
    { repeat: { text: LINE, times: TEXT.length / LINE.length } },
    { exit: 3 },
  ])
  const result = await t.fleet.client.run({ ...request, artifacts: ['**'] }, { timeoutMs: 120_000 })
  expect(result).toMatchObject({ ending: 'error', exit_code: 3, stdout_bytes: TEXT.length })
  expect(result.artifacts.map((artifact) => artifact.path).toSorted()).toEqual([
    'data/large.bin',
    'report.txt',
  ])
  return result.execution_id
}

/** Names of what is stored of an execution, without hashes. */
const stored = async (id: string): Promise<string[]> =>
  (await t.bucket.keys())
    .filter((key) => key.includes(`/${id}/`))
    .map(
      (key) =>
        key
          .split('/')
          .at(-1)
          ?.replace(/-[0-9a-f]{16}-[0-9a-f]{16}/, '') ?? '',
    )
    .toSorted()

it('are read back through the API, whole and in ranges, and nothing is on the local disk', async () => {
  const id = await run()
  expect(await stored(id)).toEqual(
    expect.arrayContaining([
      '1-artifacts_data_large.bin-hashed',
      '1-artifacts_report.txt-hashed',
      '1-stdout-hashed',
    ]),
  )
  const whole = await t.ask(`/executions/${id}/output/stdout`)
  expect([whole.status, (await whole.text()) === TEXT]).toEqual([200, true])
  const part = await t.ask(`/executions/${id}/output/stdout`, { range: 'bytes=6291450-' })
  expect([part.status, part.headers.get('content-range'), await part.text()]).toEqual([
    206,
    'bytes 6291450-6291455/6291456',
    'tters\n',
  ])
  const artifact = await t.ask(`/executions/${id}/artifacts/data/large.bin`)
  const hash = createHash('sha256').update(LARGE).digest('hex')
  const bytes = Buffer.from(await artifact.arrayBuffer())
  expect([artifact.status, createHash('sha256').update(bytes).digest('hex')]).toEqual([200, hash])
  expect(artifact.headers.get('etag')).toBe(`"${hash}"`)
  expect(existsSync(path.join(t.fleet.dataDir, 'blobs'))).toBe(false)
})

it('that were altered or removed in the bucket are answered with an error of their own', async () => {
  const id = await run()
  const key = (await t.bucket.keys()).find((one) => one.includes(`/${id}/1-artifacts_report.txt`)) ?? ''
  await t.bucket.put(key, Buffer.from('a forged report'))
  const altered = await t.ask(`/executions/${id}/artifacts/report.txt`)
  expect(altered.status).toBe(500)
  expect(await altered.json()).toMatchObject({ error: { code: 'stored_data_damaged', retry: 'never' } })
  await t.bucket.remove(key)
  const missing = await t.ask(`/executions/${id}/artifacts/report.txt`)
  expect([missing.status, await missing.json()]).toMatchObject([404, { error: { code: 'not_found' } }])
  t.bucket.breaking = (operation) => (operation === 'GetObject' ? 'slow_down' : null)
  const away = await t.ask(`/executions/${id}/artifacts/data/large.bin`)
  t.bucket.breaking = () => null
  expect([away.status, await away.json()]).toMatchObject([503, { error: { code: 'store_unavailable' } }])
})

it('are encrypted if the tenant demands it', async () => {
  await t.fleet.store.tenants.setPolicy('acme', { encrypt_outputs: true }, 'test')
  // Workers read a tenant's policy again after some seconds.
  await expect
    .poll(async () => (await stored(await run())).filter((name) => !name.endsWith('-sealed')), {
      timeout: 120_000,
    })
    .toEqual([])
  for (const key of (await t.bucket.keys()).filter((one) => one.endsWith('-sealed')))
    expect((await t.bucket.get(key)).includes('sixteen letters')).toBe(false)
})

it('are deleted by retention, and the rows stay', async () => {
  const id = await run()
  expect((await stored(id)).length).toBeGreaterThan(2)
  await t.fleet.store.retention.dropExpired(Date.now())
  expect((await stored(id)).length).toBeGreaterThan(2)
  const { blobs } = await t.fleet.store.retention.dropExpired(Date.now() + 3 * DAY_MS)
  expect(blobs).toBeGreaterThan(0)
  expect(await t.bucket.keys()).toEqual([])
  expect((await t.ask(`/executions/${id}`)).status).toBe(200)
  expect((await t.ask(`/executions/${id}/artifacts/report.txt`)).status).toBe(404)
})

/** The status of `cofferdam doctor`, and what it says about the bucket. */
function doctor(env: Record<string, string>): Promise<{ status: unknown; bucket: unknown }> {
  const cli = fileURLToPath(new URL('../../apps/cli/src/main.ts', import.meta.url))
  const { PATH = '' } = process.env
  const around = { PATH, COFFERDAM_DATA_DIR: t.fleet.dataDir, REDIS_URL: t.fleet.redisUrl }
  const { promise, resolve, reject } = Promise.withResolvers<{ status: unknown; bucket: unknown }>()
  execFile(process.execPath, [cli, 'doctor', '--json'], { env: { ...around, ...env } }, (error, stdout) => {
    try {
      const { machine } = JSON.parse(stdout) as { machine: { bucket?: unknown } }
      resolve({ status: error?.code ?? 0, bucket: machine.bucket })
    } catch (unreadable) {
      reject(error ?? unreadable)
    }
  })
  return promise
}

it('are probed by `cofferdam doctor`, which says what to correct', async () => {
  const before = await t.bucket.keys()
  expect((await doctor(t.bucket.env)).bucket).toEqual({
    ok: true,
    found: 's3://test-bucket/fleet: a probe object was written, read and deleted',
  })
  expect(await t.bucket.keys()).toEqual(before)
  expect(await doctor({ ...t.bucket.env, COFFERDAM_BLOBS: 's3://no-such-bucket' })).toEqual({
    status: 1,
    bucket: { ok: false, found: expect.stringMatching(/^s3:\/\/no-such-bucket: .*Create the bucket/) },
  })
})
