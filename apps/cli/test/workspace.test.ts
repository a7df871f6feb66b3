/** Folders and workspaces on the command line, over a real API, Redis and Postgres. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { loadConfig, runApi, type RunningApi } from '@cofferdam/api'
import { startRedis } from '@cofferdam/embedded'
import { createStore, type Store } from '@cofferdam/store'
import { createTestDatabase, PATIENT_TIMEOUTS, type TestDatabase } from '@cofferdam/store/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runHere } from './command-here.ts'
import type { Ended } from './command-process.ts'

const base = mkdtempSync(path.join(tmpdir(), 'cofferdam-cli-workspace-'))
let database: TestDatabase
let redis: Awaited<ReturnType<typeof startRedis>>
let store: Store
let api: RunningApi
let key: string

beforeAll(async () => {
  ;[database, redis] = await Promise.all([
    createTestDatabase(),
    startRedis({ dataDir: path.join(base, 'redis'), durable: false }),
  ])
  store = await createStore({
    databaseUrl: database.url,
    blobDir: path.join(base, 'blobs'),
    timeouts: PATIENT_TIMEOUTS,
  })
  await store.tenants.create({ tenant_id: 'demo' }, 'test')
  key = (await store.keys.create('admin', 'test')).key
  api = await runApi(
    loadConfig({
      REDIS_URL: redis.url,
      DATABASE_URL: database.url,
      COFFERDAM_DATA_DIR: base,
      COFFERDAM_PORT: '0',
      COFFERDAM_LOG_LEVEL: 'silent',
    }),
  )
})
afterAll(async () => {
  await api?.close()
  await store?.[Symbol.asyncDispose]()
  await Promise.all([database?.drop(), redis?.stop()])
  rmSync(base, { recursive: true, force: true })
})

const workspace = (...args: string[]): Promise<Ended> =>
  runHere(['workspace', ...args], { cwd: base, env: { COFFERDAM_URL: api.url, COFFERDAM_API_KEY: key } })

function folder(name: string, files: Record<string, string> = {}): string {
  const made = path.join(base, name)
  mkdirSync(made, { recursive: true })
  for (const [file, text] of Object.entries(files)) write(made, file, text)
  return made
}
function write(root: string, file: string, text: string): void {
  mkdirSync(path.dirname(path.join(root, file)), { recursive: true })
  writeFileSync(path.join(root, file), text)
}
const text = (root: string, file: string): string => readFileSync(path.join(root, file), 'utf8')

it('pushes a folder, pulls it elsewhere, and transfers later changes and deletions', async () => {
  const here = folder('here', {
    'notes/a.md': 'a',
    'run.sh': '#!/bin/sh',
    '.env': 'SECRET=1',
    'skills/s.md': 's',
  })
  chmodSync(path.join(here, 'run.sh'), 0o755)
  symlinkSync('/etc/passwd', path.join(here, 'link'))
  const pushed = await workspace('push', 'notes', 'here')
  expect(pushed).toMatchObject({ status: 0, stdout: 'Version 1: 3 changed, 0 deleted in notes.\n' })
  expect(pushed.stderr).toContain('Left out: ".env" (never_list)')
  expect(pushed.stderr).toContain('Left out: "link" (not_a_file)')

  expect(await workspace('pull', 'notes', 'there')).toMatchObject({ status: 0, stderr: '' })
  const there = path.join(base, 'there')
  expect([text(there, 'notes/a.md'), text(there, 'skills/s.md')]).toEqual(['a', 's'])
  expect(statSync(path.join(there, 'run.sh')).mode & 0o777).toBe(0o755)
  expect(existsSync(path.join(there, '.env'))).toBe(false)

  write(there, 'new.txt', 'new')
  rmSync(path.join(there, 'notes'), { recursive: true })
  expect((await workspace('push', 'notes', 'there')).stdout).toBe(
    'Version 2: 1 changed, 1 deleted in notes.\n',
  )
  expect((await workspace('pull', 'notes', 'here')).stdout).toContain('Version 2: 1 written, 1 deleted in ')
  expect([existsSync(path.join(here, 'notes')), text(here, 'new.txt')]).toEqual([false, 'new'])
  expect((await workspace('push', 'notes', 'here')).stdout).toBe('Nothing changed since version 2.\n')
})

it('push merges changes of different files and pushes the result at once', async () => {
  const one = folder('merge-1', { a: '1', b: '1' })
  await workspace('push', 'merge', 'merge-1')
  await workspace('pull', 'merge', 'merge-2')
  write(one, 'a', '2')
  await workspace('push', 'merge', 'merge-1')
  const two = path.join(base, 'merge-2')
  write(two, 'b', '2')
  expect(await workspace('push', 'merge', 'merge-2')).toMatchObject({ status: 0 })
  expect([text(two, 'a'), text(two, 'b')]).toEqual(['2', '2'])
  await workspace('pull', 'merge', 'merge-1')
  expect(text(one, 'b')).toBe('2')
})

it('push keeps both versions of a file that both sides changed, and exits with 3', async () => {
  const one = folder('both-1', { a: 'base', gone: 'base' })
  await workspace('push', 'both', 'both-1')
  await workspace('pull', 'both', 'both-2')
  write(one, 'a', 'theirs')
  rmSync(path.join(one, 'gone'))
  await workspace('push', 'both', 'both-1')
  const two = path.join(base, 'both-2')
  write(two, 'a', 'mine')
  write(two, 'gone', 'mine')
  const refused = await workspace('push', 'both', 'both-2', '--json')
  expect(refused.status).toBe(3)
  expect(JSON.parse(refused.stdout)).toMatchObject({
    version: 2,
    conflicted: [
      { path: 'gone', kept_as: null },
      { path: 'a', kept_as: 'a.conflict-v2' },
    ],
  })
  expect([text(two, 'a'), text(two, 'a.conflict-v2'), text(two, 'gone')]).toEqual(['mine', 'theirs', 'mine'])
  expect((await store.workspaces.read({ tenantId: 'demo', name: 'both' })).version).toBe(2)
  rmSync(path.join(two, 'a.conflict-v2'))
  expect((await workspace('push', 'both', 'both-2')).stdout).toBe(
    'Version 3: 2 changed, 0 deleted in both.\n',
  )
})

it('pull follows no link and overwrites no obstacle, and a folder belongs to one workspace', async () => {
  folder('plain', { 'deep/a': 'a' })
  await workspace('push', 'plain', 'plain')
  const trap = folder('trap')
  const outside = folder('outside')
  symlinkSync(outside, path.join(trap, 'deep'))
  const refused = await workspace('pull', 'plain', 'trap')
  expect([refused.status, refused.stderr]).toEqual([1, expect.stringContaining('"deep" stands in the way')])
  expect([readlinkSync(path.join(trap, 'deep')), existsSync(path.join(outside, 'a'))]).toEqual([
    outside,
    false,
  ])
  rmSync(path.join(base, 'plain', 'deep'), { recursive: true })
  symlinkSync(outside, path.join(base, 'plain', 'deep'))
  const hidden = await workspace('push', 'plain', 'plain')
  expect([hidden.status, hidden.stderr]).toEqual([1, expect.stringContaining('would delete it there')])
  rmSync(path.join(base, 'plain', 'deep'))
  const other = await workspace('pull', 'another', 'plain')
  expect([other.status, other.stderr]).toEqual([1, expect.stringContaining('belongs to the workspace plain')])
  expect((await workspace('pull', 'absent', 'nowhere')).stderr).toContain('has no workspace absent')
  await store.workspaces.remove({ tenantId: 'demo', name: 'plain' })
  write(path.join(base, 'plain'), 'deep/a', 'changed')
  expect(await workspace('push', 'plain', 'plain')).toMatchObject({ status: 1 })
  expect(text(path.join(base, 'plain'), 'deep/a')).toBe('changed')
})

it('push overwrites nothing in a workspace that was deleted and created again', async () => {
  const one = folder('again-1', { a: 'first' })
  await workspace('push', 'again', 'again-1')
  await store.workspaces.remove({ tenantId: 'demo', name: 'again' })
  folder('again-2', { a: 'second', b: 'theirs' })
  expect((await workspace('push', 'again', 'again-2')).stdout).toContain('Version 1: ')
  write(one, 'a', 'mine')
  expect(await workspace('push', 'again', 'again-1')).toMatchObject({ status: 3 })
  expect([text(one, 'a'), text(one, 'a.conflict-v1'), text(one, 'b')]).toEqual(['mine', 'second', 'theirs'])
  expect(await workspace('push', 'again', 'again-1')).toMatchObject({ status: 0 })
  expect(await workspace('pull', 'again', 'again-2')).toMatchObject({ status: 0 })
  expect(text(path.join(base, 'again-2'), 'b')).toBe('theirs')
})

it('push overwrites nothing in a workspace that is recreated between its read and its write', async () => {
  const one = folder('between-1', { a: 'first' })
  await workspace('push', 'between', 'between-1')
  write(one, 'a', 'mine')
  let looks = 0
  const { promise, resolve } = Promise.withResolvers<void>()
  // Forwards every request. After the first read, somebody deletes the workspace and creates it again.
  const proxy = createServer((request, response) => {
    void (async () => {
      const body = request.method === 'PUT' ? Buffer.concat(await Array.fromAsync(request)) : undefined
      const answer = await fetch(`${api.url}${request.url}`, {
        method: request.method ?? 'GET',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body }),
      })
      const bytes = Buffer.from(await answer.arrayBuffer())
      if (request.method === 'GET' && (looks += 1) === 1) {
        await store.workspaces.remove({ tenantId: 'demo', name: 'between' })
        expect((await workspace('push', 'between', folder('between-2', { a: 'theirs' }))).status).toBe(0)
      }
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(bytes)
    })()
  }).listen(0, '127.0.0.1', resolve)
  await promise
  const pushed = await runHere(['workspace', 'push', 'between', 'between-1'], {
    cwd: base,
    env: {
      COFFERDAM_URL: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
      COFFERDAM_API_KEY: key,
    },
  })
  proxy.close()
  expect(pushed.status).toBe(3)
  expect([text(one, 'a'), text(one, 'a.conflict-v1')]).toEqual(['mine', 'theirs'])
})

it('push and pull report a missing folder and a file, and push accepts an empty folder', async () => {
  const missing = await workspace('push', 'odd', 'not-there')
  expect(missing).toMatchObject({ status: 1, stderr: `cofferdam: There is no folder ${base}/not-there.\n` })
  expect(existsSync(path.join(base, 'not-there'))).toBe(false)
  write(base, 'a-file', 'x')
  expect(await workspace('push', 'odd', folder('odd'))).toMatchObject({ status: 0 })
  for (const verb of ['push', 'pull']) {
    const { status, stderr } = await workspace(verb, 'odd', 'a-file')
    expect({ status, stderr }).toEqual({ status: 1, stderr: `cofferdam: ${base}/a-file is not a folder.\n` })
  }
  expect(await workspace('push', 'odd', 'odd')).toMatchObject({
    stdout: 'Nothing changed since version 1.\n',
  })
})

it.each([
  ['an empty folder', 'z', (at: string) => mkdirSync(path.join(at, 'z'))],
  ['a folder with a secret file', 'z/.env', (at: string) => write(at, 'z/.env', 'SECRET=1')],
])('pull writes nothing when %s is where a file should be', async (_what, named, put) => {
  const name = `half-${named.length}`
  await workspace('push', name, folder(name, { a: 'a', z: 'z' }))
  const at = folder(`${name}-here`)
  put(at)
  const { status, stderr } = await workspace('pull', name, at)
  expect([status, stderr]).toEqual([1, expect.stringContaining(`"${named}" stands in the way`)])
  expect(existsSync(path.join(at, 'a'))).toBe(false)
})

describe('pull from an API that sends a forged archive', () => {
  let liar: Server
  let archive: string
  beforeAll(async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    liar = createServer((_request, response) => response.end(archive)).listen(0, '127.0.0.1', resolve)
    await promise
  })
  afterAll(() => void liar.close())
  const pullFrom = (name: string): Promise<Ended> =>
    runHere(['workspace', 'pull', 'w', name], {
      cwd: base,
      env: {
        COFFERDAM_URL: `http://127.0.0.1:${(liar.address() as AddressInfo).port}`,
        COFFERDAM_API_KEY: key,
      },
    })

  it.each(['../escaped', '/tmp/cofferdam-escaped', 'a/../../escaped', 'C:\\escaped'])(
    'writes nothing from an archive with the name %s',
    async (name) => {
      archive = JSON.stringify({ version: 1, archive_base64: zipOf(name, 'x').toString('base64') })
      const ended = await pullFrom('lied-to')
      expect([ended.status, ended.stderr]).toEqual([
        1,
        expect.stringContaining('A name is absolute, leads out'),
      ])
      expect(existsSync(path.join(base, 'escaped'))).toBe(false)
      expect(existsSync(path.join(base, 'lied-to', '.cofferdam-workspace.json'))).toBe(false)
    },
  )

  it('accepts an archive whose names are all valid', async () => {
    archive = JSON.stringify({ version: 1, archive_base64: zipOf('fine', 'x').toString('base64') })
    expect(await pullFrom('fine')).toMatchObject({ status: 0 })
    expect(text(path.join(base, 'fine'), 'fine')).toBe('x')
  })

  it('reads no more than a workspace can contain', async () => {
    archive = 'x'.repeat(33 * 1024 * 1024)
    const ended = await pullFrom('flooded')
    expect([ended.status, ended.stderr]).toEqual([1, expect.stringContaining('sent more than')])
  })
})

/** A zip archive with one stored file under any name, including names that our own packer refuses. */
function zipOf(name: string, content: string): Buffer {
  const [raw, body] = [Buffer.from(name), Buffer.from(content)]
  const shared = Buffer.alloc(26)
  shared.writeUInt16LE(20, 0)
  shared.writeUInt16LE(0x800, 2)
  shared.writeUInt16LE(0x21, 8)
  shared.writeUInt32LE(0x8cdc1683, 10)
  shared.writeUInt32LE(body.length, 14)
  shared.writeUInt32LE(body.length, 18)
  shared.writeUInt16LE(raw.length, 22)
  const local = Buffer.concat([Buffer.from('PK\u0003\u0004', 'latin1'), shared, raw, body])
  const central = Buffer.concat([
    Buffer.from('PK\u0001\u0002', 'latin1'),
    Buffer.from([20, 3]),
    shared,
    Buffer.alloc(14),
    raw,
  ])
  const end = Buffer.alloc(22)
  end.write('PK\u0005\u0006', 'latin1')
  end.writeUInt16LE(1, 8)
  end.writeUInt16LE(1, 10)
  end.writeUInt32LE(central.length, 12)
  end.writeUInt32LE(local.length, 16)
  return Buffer.concat([local, central, end])
}
