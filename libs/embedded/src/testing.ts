/**
 * Servers for tests. A vitest run shares one Postgres and one Redis, which the first request starts
 * (test-servers.ts). A separate Redis for a test file costs 13 ms.
 */
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, inject } from 'vitest'
import { askForServer } from './server-broker.ts'
import type { RunningServer } from './running-server.ts'
import { startPostgres } from './start-postgres.ts'
import { startRedis } from './start-redis.ts'

export { freePort } from './free-port.ts'
export { DAY_MS, HOUR_MS, untilWindowLasts } from './window-end.ts'

/**
 * The seed of random schedules, the same in every run, so that a failure comes from the change and not from
 * chance. `COFFERDAM_MODEL_SEED=<number>` sets another seed, `COFFERDAM_MODEL_SEED=random` a random one.
 */
export function scheduleSeed(): number {
  const asked = process.env['COFFERDAM_MODEL_SEED'] ?? '20261121'
  return asked === 'random' ? Math.trunc(Math.random() * 2 ** 31) : Number(asked)
}

/**
 * An empty folder for the tests of a file or of a suite, by default for this user alone. It is created before
 * the tests and removed after them. It is not created if all tests are skipped, so write into it only in
 * `beforeAll` or later.
 */
export function temporaryFolder(name: string, mode = 0o700): string {
  const folder = join(tmpdir(), `cofferdam-${name}-${randomBytes(6).toString('hex')}`)
  beforeAll(() => {
    mkdirSync(folder, { recursive: true })
    chmodSync(folder, mode)
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export interface TestServer {
  url: string
  /** Stops a private server. Does nothing for the shared one. */
  stop(): Promise<void>
}

/** The shared Postgres of this vitest run, or a private temporary one if the run has no globalSetup. */
export async function testPostgres(): Promise<TestServer> {
  const broker = inject('cofferdamServers')
  if (broker === undefined) return await privatePostgres()
  return { url: await askForServer(broker, 'postgres'), stop: async () => {} }
}

/** The shared Redis of this vitest run. Use your own keys, and do not flush. */
export async function testRedis(): Promise<TestServer> {
  const broker = inject('cofferdamServers')
  if (broker === undefined) return await isolatedRedis()
  return { url: await askForServer(broker, 'redis'), stop: async () => {} }
}

/** A private Redis in a temporary directory, without persistence unless `durable`. */
export async function isolatedRedis(durable = false): Promise<RunningServer> {
  return await inTemporaryDir((dataDir) => startRedis({ dataDir, durable }))
}

/** A private Postgres in a temporary directory (0.5-1.6 s), for tests that stop or break the server. */
export async function privatePostgres(durable = false): Promise<RunningServer> {
  return await inTemporaryDir((dataDir) => startPostgres({ dataDir, durable }))
}

async function inTemporaryDir(start: (dataDir: string) => Promise<RunningServer>): Promise<RunningServer> {
  const dataDir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
  // Without user namespaces, root's Postgres runs as another user, which must be able to enter.
  chmodSync(dataDir, 0o711)
  const remove = (): void => rmSync(dataDir, { recursive: true, force: true })
  try {
    const server = await start(dataDir)
    return { ...server, stop: () => server.stop().finally(remove) }
  } catch (error) {
    remove()
    throw error
  }
}
