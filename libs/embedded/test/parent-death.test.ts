import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { findOnPath } from '../src/find-program.ts'
import { startPostgres, startRedis } from '../src/index.ts'
import { needs } from '../src/needs.ts'
import { isRunning, serverProcess, type ServerProcess } from './server-process.ts'

let dir: string
let owner: ServerProcess | null = null

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
  // Without user namespaces, root's Postgres runs as another user, which must be able to enter this
  // directory.
  chmodSync(dir, 0o711)
})
afterEach(async () => {
  await owner?.kill('SIGKILL')
  owner = null
  rmSync(dir, { recursive: true, force: true })
})

const start = { redis: startRedis, postgres: startPostgres }

describe.each(['redis', 'postgres'] as const)('a %s whose owner is killed with SIGKILL', (kind) => {
  needs('setpriv').it('dies with its owner, and the next start in the directory works', async () => {
    // The path is too long for a socket, so the socket is in a temporary directory. The dead owner cannot
    // remove it.
    const dataDir = join(dir, 'd'.repeat(100))
    owner = await serverProcess(kind, dataDir, { durable: true })
    const { pid, url = '' } = owner.answer
    expect(isRunning(pid)).toBe(true)
    await owner.kill('SIGKILL')
    await vi.waitFor(() => expect(isRunning(pid)).toBe(false), { timeout: 30_000 })
    const next = await start[kind]({ dataDir, durable: true })
    await next.stop()
    const socketDir = kind === 'redis' ? dirname(url.replace('unix://', '')) : hostOf(url)
    expect(existsSync(socketDir)).toBe(false)
  })

  it('is stopped by the next start if the system cannot tie it to its owner', async () => {
    const dataDir = join(dir, 'data')
    owner = await serverProcess(kind, dataDir, { env: { PATH: await pathWithoutSetpriv(), HOME: homedir() } })
    const { pid } = owner.answer
    await owner.kill('SIGKILL')
    expect(isRunning(pid)).toBe(true)
    const next = await start[kind]({ dataDir, durable: false })
    expect(isRunning(pid)).toBe(false)
    expect(next.pid).not.toBe(pid)
    await next.stop()
  })
})

describe('a server of another process', () => {
  it('is not stopped by a start, which is refused and names its owner', async () => {
    const dataDir = join(dir, 'data')
    owner = await serverProcess('redis', dataDir)
    await expect(startRedis({ dataDir, durable: false })).rejects.toMatchObject({
      code: 'directory_in_use',
      message: expect.stringContaining(`pid ${owner.child.pid}`),
    })
    expect(isRunning(owner.answer.pid)).toBe(true)
  })
})

/** Links only these programs: root's Postgres needs `unshare`, but its folder on PATH also has `setpriv`. */
async function pathWithoutSetpriv(): Promise<string> {
  const bin = join(dir, 'bin')
  mkdirSync(bin)
  for (const name of ['redis-server', 'unshare']) {
    const path = await findOnPath([name])
    if (path !== null) symlinkSync(path, join(bin, name))
  }
  return bin
}

const hostOf = (url: string): string => new URL(url.replace('@/', '@x/')).searchParams.get('host') ?? ''
