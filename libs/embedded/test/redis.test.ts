import { existsSync, mkdtempSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startRedis, type RedisOptions, type RunningServer } from '../src/index.ts'
import { needs } from '../src/needs.ts'

let dir: string
const started: RunningServer[] = []

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
})
afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.stop()))
  rmSync(dir, { recursive: true, force: true })
})

async function start(options: Partial<RedisOptions> = {}): Promise<RunningServer> {
  const server = await startRedis({ dataDir: join(dir, 'data'), durable: false, ...options })
  started.push(server)
  return server
}

const socketOf = (server: RunningServer): string => server.url.replace('unix://', '')

async function withClient<T>(server: RunningServer, use: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis({ path: socketOf(server), lazyConnect: true })
  try {
    return await use(redis)
  } finally {
    redis.disconnect()
  }
}

describe('startRedis', () => {
  it('listens only on a private unix socket, never evicts, and leaves nothing behind', async () => {
    const server = await start()
    expect(socketOf(server)).toBe(join(dir, 'data', 'redis.sock'))
    expect(statSync(socketOf(server)).mode & 0o777).toBe(0o700)
    const settings = await withClient(server, (redis) =>
      redis.config('GET', 'port', 'maxmemory-policy', 'save'),
    )
    expect(settings).toEqual(
      expect.arrayContaining(['port', '0', 'maxmemory-policy', 'noeviction', 'save', '']),
    )
    await server.stop()
    expect(await server.exited).toBe('exited with code 0')
    expect(existsSync(socketOf(server))).toBe(false)
    expect(readdirSync(join(dir, 'data'))).toEqual(['owner.lock'])
  })

  it('keeps its data over a restart when durable', async () => {
    const first = await start({ durable: true })
    await withClient(first, (redis) => redis.set('job', 'kept'))
    await first.stop()
    const second = await start({ durable: true })
    expect(await withClient(second, (redis) => redis.get('job'))).toBe('kept')
  })

  it('refuses a second start in the same directory and names the owner', async () => {
    await start()
    await expect(start()).rejects.toMatchObject({
      code: 'directory_in_use',
      message: expect.stringContaining(`pid ${process.pid}`),
    })
  })

  it('lets exactly one of many simultaneous starts succeed', async () => {
    const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => start()))
    expect(outcomes.filter((outcome) => outcome.status === 'fulfilled')).toHaveLength(1)
  })

  it('removes the socket file of a dead server', async () => {
    mkdirSync(join(dir, 'data'))
    writeFileSync(join(dir, 'data', 'redis.sock'), '')
    expect(await withClient(await start(), (redis) => redis.ping())).toBe('PONG')
  })

  it('uses a short private directory for the socket when the data directory is too deep', async () => {
    const server = await start({ dataDir: join(dir, 'd'.repeat(60), 'e'.repeat(60)) })
    const socketDir = dirname(socketOf(server))
    expect(Buffer.byteLength(socketOf(server))).toBeLessThanOrEqual(107)
    expect(statSync(socketDir).mode & 0o777).toBe(0o700)
    expect(await withClient(server, (redis) => redis.ping())).toBe('PONG')
    await server.stop()
    expect(existsSync(socketDir)).toBe(false)
  })

  it('reports what to install when no server is found', async () => {
    await expect(start({ sources: [] })).rejects.toMatchObject({
      code: 'server_missing',
      message: expect.stringMatching(/(apt-get|brew) install.*REDIS_URL/s),
    })
    // A failed start releases the directory.
    expect(await withClient(await start(), (redis) => redis.ping())).toBe('PONG')
  })

  it('reports the last output lines of a server that does not start', async () => {
    const data = join(dir, 'data')
    mkdirSync(join(data, 'appendonlydir'), { recursive: true })
    writeFileSync(join(data, 'appendonlydir', 'appendonly.aof.manifest'), 'nonsense\n')
    await expect(start({ durable: true })).rejects.toMatchObject({
      code: 'start_failed',
      message: expect.stringContaining('manifest'),
    })
    expect(existsSync(join(data, 'redis.sock'))).toBe(false)
  })
})

needs('apt').describe('startRedis from the Debian package', () => {
  it('unpacks the package once, without root, even if two processes need it', async () => {
    const cacheDir = join(dir, 'cache')
    const options = { sources: ['package'] as const, cacheDir }
    const both = await Promise.all([
      start({ ...options, dataDir: join(dir, 'a') }),
      start({ ...options, dataDir: join(dir, 'b') }),
    ])
    for (const server of both) {
      expect(server.how).toContain('Debian package')
      expect(await withClient(server, (redis) => redis.ping())).toBe('PONG')
    }
    expect(readdirSync(cacheDir)).toEqual(['redis-debian'])
  })
})
