/** Postgres executes a statement, but its answer is late or the connection is lost. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createServer, connect, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createStore, type Store } from '../src/index.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { sampleAttempt } from './sample-attempt.ts'

const SOCKET = '.s.PGSQL.5432'
const TEXT = 'x'.repeat(20_000)

let t: TestStore
let dir: string
let way: Server
const clients = new Set<Socket>()
/** When set, everything that the server sends is dropped. */
let isDeaf = false
/** When set, connections end when a client takes its role. */
let isCutAtRole = false
let store: Store

beforeAll(async () => {
  t = await openTestStore()
  const [, host = ''] = /\?host=([^&]+)/.exec(t.url) ?? []
  const real = join(decodeURIComponent(host), SOCKET)
  dir = mkdtempSync(join(tmpdir(), 'cofferdam-way-'))
  way = createServer((client) => {
    const server = connect(real)
    clients.add(client)
    client.on('data', (bytes) => {
      if (isCutAtRole && bytes.includes('set role')) client.destroy()
      else server.write(bytes)
    })
    server.on('data', (bytes) => void (isDeaf || client.write(bytes)))
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const)
      one.on('error', () => undefined).on('close', () => other.destroy())
  })
  await new Promise<void>((resolve) => way.listen(join(dir, SOCKET), resolve))
  // Long enough to connect on a slow machine, short enough to wait for an answer that does not come.
  const timeouts = { connectMs: 30_000, statementMs: 5000 }
  store = await createStore({
    databaseUrl: t.url.replace(host, encodeURIComponent(dir)),
    blobDir: t.blobDir,
    timeouts,
  })
})
afterAll(async () => {
  for (const client of clients) client.destroy()
  await store[Symbol.asyncDispose]()
  await new Promise((resolve) => way.close(resolve))
  rmSync(dir, { recursive: true, force: true })
  await t.close()
})

it('the store keeps the text of a row whose answer was lost, and deletes that of a repeat', async () => {
  await store.record(sampleAttempt())
  const record = sampleAttempt({ stdout: TEXT })
  const { execution_id: id } = record.result
  isDeaf = true
  const recording = expect(store.record(record)).rejects.toMatchObject({ code: 'store_unavailable' })
  // The row is stored before the timeout.
  await expect.poll(() => t.store.findAttempt(id, 1), { timeout: 20_000 }).not.toBeNull()
  for (const client of clients) client.destroy()
  await recording
  isDeaf = false

  // The outbox does the same: it stores the record again.
  expect(await store.record(record)).toEqual({ inserted: false })
  expect((await t.store.findAttempt(id, 1))?.result).toMatchObject({ stdout: TEXT, stdout_truncated: false })
  const blobs = readdirSync(t.blobDir, { recursive: true }).filter((path) => String(path).includes(`${id}/`))
  expect(blobs).toHaveLength(1)
})

it('the store deletes the text of a row that was never sent to Postgres', async () => {
  const record = sampleAttempt({ stdout: TEXT })
  // No server can be reached, so nothing is sent.
  await using cut = await createStore({
    databaseUrl: `postgres://postgres@/none?host=${encodeURIComponent(join(dir, 'nowhere'))}`,
    blobDir: t.blobDir,
  })
  await expect(cut.record(record)).rejects.toMatchObject({ code: 'store_unavailable' })
  const { execution_id: id } = record.result
  const blobs = readdirSync(t.blobDir, { recursive: true }).filter((path) => String(path).includes(`${id}/`))
  expect(blobs).toEqual([])
})

it('a server that goes away while a connection takes its role ends the call, not the process', async () => {
  for (const client of clients) client.destroy()
  isCutAtRole = true
  await expect(store.tenants.get('acme')).rejects.toMatchObject({ code: 'store_unavailable' })
  isCutAtRole = false
  // An error event without a listener would have failed this file.
  expect(await store.tenants.get('acme')).toBeNull()
})
