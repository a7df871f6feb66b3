/** Sessions of virtual machines that are paused to disk, resumed by other workers, and forked. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  type Backend,
  type Program,
  type Sandbox,
  type SandboxSpec,
  type SessionFork,
  type SessionScope,
} from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { defaultRuntimeDir } from '@cofferdam/sandbox/backend'
import { afterAll, beforeAll, expect } from 'vitest'
import { createMicrovmBackend } from '../src/index.ts'

const { describe, it } = needs('microvm')
const onDisk = needs('microvm', 'mounts')
const command = promisify(execFile)
const MINUTES = 600_000

/**
 * The default folder. It already has a template, because scripts/machine-parts.ts tries this backend before
 * the tests.
 */
const runtime_dir = defaultRuntimeDir()
const pausedDir = mkdtempSync(join(tmpdir(), 'cofferdam-paused-'))
const owner = newWorkerId('c0ffee00c10e')
const never = new AbortController().signal
afterAll(() => rmSync(pausedDir, { recursive: true }))

/** A worker's backend. Two of them share the folders, as two workers of a host group do. */
const openBackend = (more: object = {}): Promise<Backend> =>
  createMicrovmBackend({ runtime_dir, paused_dir: pausedDir, ...more })

function specOf(key: string, program: Program, scope: SessionScope = 'files'): SandboxSpec {
  return {
    sandboxId: newSandboxId(),
    executionId: newExecutionId(),
    attempt: 1,
    tenantId: 'pausing',
    owner,
    program,
    limits: DEFAULT_LIMITS,
    network: 'none',
    env: {},
    preload: null,
    reuse: 'session',
    session: { key, scope, idleMs: null },
  }
}

const script = (source: string, language: 'python' | 'javascript' | 'bash' = 'python'): Program => ({
  type: 'script',
  language,
  source,
})

async function runIn(sandbox: Sandbox, program: Program): Promise<string> {
  let text = ''
  const exit = await sandbox.run(program, {
    onOutput: (_stream, chunk) => void (text += Buffer.from(chunk).toString()),
    maxOutputBytes: { stdout: 10_000, stderr: 10_000 },
    signal: never,
  })
  expect({ code: exit.exitCode, text }).toMatchObject({ code: 0 })
  return text
}

async function run(
  backend: Backend,
  key: string,
  program: Program,
  scope?: SessionScope,
): Promise<{ text: string; session: Sandbox['session'] }> {
  await using sandbox = await backend.open(specOf(key, program, scope), never)
  return { text: await runIn(sandbox, program), session: sandbox.session }
}

async function pause(backend: Backend, key: string, scope?: SessionScope): Promise<void> {
  await using sandbox = await backend.open(specOf(key, { type: 'files', op: 'pause' }, scope), never)
  await sandbox.pause?.(never)
}

async function forkOf(
  backend: Backend,
  key: string,
  keys: string[],
  scope?: SessionScope,
): Promise<SessionFork[]> {
  await using sandbox = await backend.open(specOf(key, { type: 'files', op: 'fork', keys }, scope), never)
  return (await sandbox.fork?.(keys, never)) ?? []
}

const OF_PYTHON = `
import json, os, random, secrets, time, uuid
print(json.dumps({
  'urandom': os.urandom(16).hex(), 'file': open('/dev/random', 'rb').read(16).hex(),
  'random': random.random(), 'secrets': secrets.token_hex(16), 'uuid4': str(uuid.uuid4()),
  'uuid1': str(uuid.uuid1()), 'now_ms': int(time.time() * 1000),
}))`
const OF_NODE = `
var drawn = require('node:crypto')
console.log(JSON.stringify({ bytes: drawn.randomBytes(16).toString('hex'), node_uuid: drawn.randomUUID(),
  web: [...globalThis.crypto.getRandomValues(new Uint8Array(16))].join(), math: Math.random(),
  now_ms: Date.now() }))`

describe('a session of a virtual machine', { timeout: MINUTES }, () => {
  let first: Backend
  let second: Backend
  beforeAll(async () => {
    first = await openBackend()
    second = await openBackend()
  }, MINUTES)
  afterAll(async () => {
    await first[Symbol.asyncDispose]()
    await second[Symbol.asyncDispose]()
  })

  it('leaves the memory of the host while it is paused, and another worker goes on with it', async () => {
    const before = await run(
      first,
      'work',
      script('open("note", "w").write("kept")\nx = 41', 'python'),
      'interpreter',
    )
    expect(before.session?.fresh).toBe(true)
    await pause(first, 'work', 'interpreter')
    expect(await machines()).toEqual([])

    const [folder = 'none'] = await readdir(pausedDir)
    for (const path of [pausedDir, join(pausedDir, folder)]) expect((await stat(path)).mode & 0o077).toBe(0)
    for (const name of ['machine', 'session.json'])
      expect((await stat(join(pausedDir, folder, name))).mode & 0o177).toBe(0)

    const earliest = Date.now()
    const after = await run(
      second,
      'work',
      script('import time\nprint(open("note").read(), x + 1, int(time.time() * 1000))'),
      'interpreter',
    )
    const [note, sum, now] = after.text.trim().split(' ')
    expect([note, sum]).toEqual(['kept', '42'])
    expect(Number(now)).toBeGreaterThanOrEqual(earliest)
    expect(Number(now)).toBeLessThanOrEqual(Date.now())
    expect(after.session).toEqual({ id: before.session?.id, fresh: false })
    expect(await readdir(pausedDir)).toEqual([])
  })
})

describe('forks of a session', { timeout: MINUTES }, () => {
  let backend: Backend
  beforeAll(async () => {
    backend = await openBackend()
  })
  afterAll(() => backend[Symbol.asyncDispose]())

  it('have its files, and share no random byte, process or identity with it or each other', async () => {
    const scope = 'interpreter'
    // Use the session's random generators before the fork: a fork that continued them would draw the same
    // numbers.
    await run(backend, 'source', script(`open("note", "w").write("kept")\n${OF_PYTHON}`), scope)
    await run(backend, 'source', script(OF_NODE, 'javascript'), scope)
    const keys = ['one', 'two']
    const forkedMs = Date.now()
    const forks = await forkOf(backend, 'source', keys, scope)
    expect(forks.map(({ key }) => key)).toEqual(keys)

    const seen = new Map<string, unknown[]>()
    const ids = new Set<string>()
    for (const key of ['source', ...keys]) {
      // A thaw sets the clock of a machine. From then on the clock lags by the time that the message took.
      const earliest = key === 'source' ? forkedMs : Date.now()
      for (const program of [script(OF_PYTHON), script(OF_NODE, 'javascript')]) {
        const { text, session } = await run(backend, key, program, scope)
        const { now_ms, ...drawn } = JSON.parse(text) as Record<string, unknown>
        expect(now_ms).toBeGreaterThanOrEqual(earliest)
        expect(now_ms).toBeLessThanOrEqual(Date.now())
        expect(session?.fresh).toBe(false)
        ids.add(session?.id ?? '')
        for (const [name, value] of Object.entries(drawn)) seen.set(name, [...(seen.get(name) ?? []), value])
      }
      expect((await run(backend, key, script('print(open("note").read())'), scope)).text).toBe('kept\n')
    }
    expect(ids.size).toBe(3)
    for (const [name, values] of seen) expect(new Set(values).size, `${name}: ${values.join()}`).toBe(3)
  })

  it('are all made or none, and never over a session that is there', async () => {
    await run(backend, 'parent', script('pass'))
    await forkOf(backend, 'parent', ['taken'])
    const before = await readdir(pausedDir)
    await expect(forkOf(backend, 'parent', ['free', 'taken'])).rejects.toMatchObject({ code: 'conflict' })
    await expect(forkOf(backend, 'parent', ['parent'])).rejects.toMatchObject({ code: 'conflict' })
    expect(await readdir(pausedDir)).toEqual(before)
    expect((await run(backend, 'parent', script('print(1)'))).text).toBe('1\n')
  })
})

describe('a pause that fails', { timeout: MINUTES }, () => {
  it('because a bound is reached leaves the session as it was', async () => {
    await using backend = await openBackend({ paused_max_mib: 1 })
    const before = await run(backend, 'large', script('x = 41'), 'interpreter')
    await expect(pause(backend, 'large', 'interpreter')).rejects.toMatchObject({
      code: 'backend_unavailable',
      message: expect.stringContaining('no room') as string,
    })
    const after = await run(backend, 'large', script('print(x)'), 'interpreter')
    expect(after).toEqual({ text: '41\n', session: { id: before.session?.id, fresh: false } })
    expect((await readdir(pausedDir)).filter((name) => name.startsWith('new-'))).toEqual([])
  })

  onDisk.it('because the disk is full leaves the session as it was', async () => {
    const paused_dir = mkdtempSync(join(tmpdir(), 'cofferdam-small-'))
    await command('mount', ['-t', 'tmpfs', '-o', 'size=8m,mode=0700', 'cofferdam-test', paused_dir])
    try {
      await using backend = await openBackend({ paused_dir })
      const before = await run(backend, 'full', script('open("note", "w").write("kept")'))
      await expect(pause(backend, 'full')).rejects.toMatchObject({
        code: 'backend_unavailable',
        message: 'The disk of paused sessions is full.',
      })
      expect(await readdir(paused_dir)).toEqual([])
      const after = await run(backend, 'full', script('print(open("note").read())'))
      expect(after).toEqual({ text: 'kept\n', session: { id: before.session?.id, fresh: false } })
    } finally {
      await command('umount', ['-l', paused_dir])
      rmSync(paused_dir, { recursive: true })
    }
  })
})

describe('a worker that is killed', { timeout: MINUTES }, () => {
  let other: Backend
  beforeAll(async () => {
    other = await openBackend()
  })
  afterAll(() => other[Symbol.asyncDispose]())

  /** Starts a worker and kills it when it has said `word`. */
  async function killedAfter(word: string, key: string): Promise<void> {
    const spec = specOf(key, script('open("note", "w").write("kept")'))
    const file = fileURLToPath(new URL('worker-that-pauses.ts', import.meta.url))
    const worker = spawn(
      process.execPath,
      [file, JSON.stringify({ settings: { runtime_dir, paused_dir: pausedDir }, spec })],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    )
    for await (const line of createInterface({ input: worker.stdout })) if (line.startsWith(word)) break
    worker.kill('SIGKILL')
    if (worker.exitCode === null && worker.signalCode === null) await once(worker, 'exit')
    await other.sweep(owner)
  }

  const resumed = async (key: string): Promise<string> =>
    (await run(other, key, script('import os\nprint(os.path.exists("note"))'))).text

  it('while it pauses leaves the session paused or ended, and no half of it', async () => {
    await killedAfter('pausing', 'cut')
    const records = await Promise.all(
      (await readdir(pausedDir)).map((name) =>
        readFile(join(pausedDir, name, 'session.json'), 'utf8').catch(() => ''),
      ),
    )
    const wasPaused = records.some((text) => text.includes('"key":"cut"'))
    expect(await resumed('cut')).toBe(wasPaused ? 'True\n' : 'False\n')
  })

  it('while it resumes leaves the session paused', async () => {
    await killedAfter('resuming', 'twice')
    expect(await resumed('twice')).toBe('True\n')
  })

  it('after it resumed has ended the session, and says so to who needs it', async () => {
    await killedAfter('resumed', 'gone')
    const program: Program = { type: 'files', op: 'resume' }
    await expect(other.open(specOf('gone', program), never)).rejects.toMatchObject({
      code: 'session_not_found',
    })
  })
})

/** Processes of machines of this test's workers. */
async function machines(): Promise<string[]> {
  const ids = await readdir(join(runtime_dir, 'microvm/machines', owner)).catch(() => [])
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '')),
  )
  return lines.filter((line) => ids.some((id) => line.includes(id)))
}
