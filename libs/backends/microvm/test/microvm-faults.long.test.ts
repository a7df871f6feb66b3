/**
 * What fails around a machine: its VMM or its worker dies in any phase, the disk is full, somebody changes a
 * template under waiting machines, the host has no memory. Each ends as a typed error and leaves nothing.
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { open, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { newWorkerId, type Backend, type SandboxSpec } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { warmSlots } from '@cofferdam/sandbox/conformance'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { createMicrovmBackend } from '../src/index.ts'
import { proportionalShare } from '../src/machine-memory.ts'
import { bashSpec, groupsOf, machinesOf, recordsOf, templatesOf } from './faulty-host.ts'

const run = promisify(execFile)
const MiB = 1_048_576
const MINUTES = 600_000
/** How long to wait for a state of the host: an emulated machine may have to boot on a busy host. */
const SOON = { timeout: 300_000, interval: 2 }
const { signal } = new AbortController()
const owner = newWorkerId('fa017ed0b057')

const shared = mkdtempSync(join(tmpdir(), 'cofferdam-faults-'))
afterAll(() => rmSync(shared, { recursive: true }))
const runtime_dir = join(shared, 'one')
const templates = join(runtime_dir, 'microvm/templates')
mkdirSync(runtime_dir)

async function printed(backend: Backend, source: string, change: Partial<SandboxSpec> = {}) {
  const spec = bashSpec(owner, source, change)
  await using sandbox = await backend.open(spec, signal)
  let text = ''
  const exit = await sandbox.run(spec.program, {
    onOutput: (_stream, chunk) => void (text += Buffer.from(chunk).toString()),
    maxOutputBytes: { stdout: 10_000, stderr: 10_000 },
    signal,
  })
  return { exit, text, warm: sandbox.warm }
}

/** No VMM runs below the folder, and no folder of a machine is left. Templates are not checked. */
async function expectNothingLeft(path = runtime_dir): Promise<void> {
  await expect.poll(() => machinesOf(path), SOON).toEqual([])
  expect(await recordsOf(path)).toEqual([])
}

/** Phases of opening a machine, recognised by what the host shows. */
type Phase = [name: string, isReached: () => Promise<boolean>]
const OF_A_TEMPLATE: Phase[] = [
  ['begins a template', async () => (await templatesOf(runtime_dir)).some((name) => name.startsWith('new-'))],
  ['boots a template', async () => (await machinesOf(runtime_dir)).length > 0],
]
const OF_A_MACHINE: Phase[] = [
  ['reserved a machine', async () => (await recordsOf(runtime_dir)).length > 0],
  ['started the machine', async () => (await machinesOf(runtime_dir)).length > 0],
  [
    'recorded the machine',
    async () => (await recordsOf(runtime_dir)).some((path) => existsSync(join(path, 'record.json'))),
  ],
]

/** A worker that opens a machine is killed in the phase, and another worker sweeps. */
async function killWorkerWhen(isReached: Phase[1], heir: Backend): Promise<void> {
  const script = fileURLToPath(new URL('worker-that-dies.ts', import.meta.url))
  const spec = bashSpec(owner, 'echo runs; sleep 600')
  const worker = spawn(process.execPath, [script, JSON.stringify({ config: { runtime_dir }, spec })], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const exited = once(worker, 'exit')
  try {
    await expect.poll(isReached, SOON).toBe(true)
  } finally {
    worker.kill('SIGKILL')
    await exited
  }
  const ids = (await recordsOf(runtime_dir)).map((path) => path.split('/').at(-1) ?? '')
  await heir.sweep(owner)
  expect(await heir.owners()).toEqual([])
  await expectNothingLeft()
  for (const id of ids) expect(await groupsOf(id)).toEqual([])
}

/** The VMM of an opening is killed in the phase. */
async function killMachineWhen(isReached: Phase[1], backend: Backend): Promise<void> {
  const opening = printed(backend, 'sleep 600').then(
    () => 'it ended well',
    (error: unknown) => error,
  )
  await expect.poll(isReached, SOON).toBe(true)
  await expect.poll(() => machinesOf(runtime_dir), SOON).not.toEqual([])
  for (const pid of await machinesOf(runtime_dir)) process.kill(pid, 'SIGKILL')
  // The machine may already be running its program by then. This gives `sandbox_lost`.
  const code = expect.stringMatching(/^sandbox_(open_failed|lost)$/) as string
  expect(await opening).toMatchObject({ code })
  await expectNothingLeft()
}

// The order matters: the tests of failing templates come first. Then one template is made for all other
// tests.
needs('microvm').describe('a SIGKILL', { timeout: MINUTES }, () => {
  let backend: Backend
  beforeAll(async () => {
    backend = await createMicrovmBackend({ runtime_dir })
  })
  afterAll(() => backend[Symbol.asyncDispose]())

  for (const [phase, isReached] of OF_A_TEMPLATE) {
    needs('microvm').it(`to a worker that ${phase} leaves no machine, and what is no template`, async () => {
      await killWorkerWhen(isReached, backend)
      const left = await templatesOf(runtime_dir)
      expect(left.filter((name) => !name.startsWith('new-'))).toEqual([])
      await rm(templates, { recursive: true, force: true })
    })
    needs('microvm').it(
      `to the VMM of a worker that ${phase} is a typed error that leaves nothing`,
      async () => {
        await killMachineWhen(isReached, backend)
        expect(await templatesOf(runtime_dir)).toEqual([])
      },
    )
  }

  for (const [phase, isReached] of OF_A_MACHINE) {
    needs('microvm').it(`to a worker that ${phase} leaves nothing, and the next machine opens`, async () => {
      await killWorkerWhen(isReached, backend)
      expect(await printed(backend, 'echo again')).toMatchObject({ text: 'again\n' })
    })
    needs('microvm').it(
      `to the VMM of a worker that ${phase} is a typed error that leaves nothing`,
      async () => {
        await killMachineWhen(isReached, backend)
        expect(await printed(backend, 'echo again')).toMatchObject({ text: 'again\n' })
      },
    )
  }
})

needs('microvm', 'mounts').describe('a full disk', { timeout: MINUTES }, () => {
  const mounted: string[] = []
  afterEach(async () => {
    for (const path of mounted.splice(0)) await run('umount', ['-l', path])
  })
  async function disk(name: string, mib: number): Promise<string> {
    const path = join(shared, name)
    mkdirSync(path)
    await run('mount', ['-t', 'tmpfs', '-o', `size=${mib}m,mode=0700`, 'cofferdam-test', path])
    mounted.push(path)
    return path
  }
  const FULL = {
    code: 'sandbox_open_failed',
    message: expect.stringContaining('No space is left') as string,
  }

  needs('microvm', 'mounts').it('fails a template and a clone, and leaves nothing of either', async () => {
    const path = await disk('full', 32)
    await using backend = await createMicrovmBackend({ runtime_dir: path })
    await expect(printed(backend, 'true')).rejects.toMatchObject(FULL)
    expect(await templatesOf(path)).toEqual([])
    await expectNothingLeft(path)
    await run('mount', ['-o', 'remount,size=400m', path])
    expect(await printed(backend, 'echo again')).toMatchObject({ text: 'again\n' })
    const filling = join(path, 'filling')
    await writeFile(filling, Buffer.alloc(400 * MiB)).catch(() => {})
    await expect(printed(backend, 'true')).rejects.toMatchObject(FULL)
    await expectNothingLeft(path)
    await truncate(filling)
    expect(await printed(backend, 'echo again')).toMatchObject({ text: 'again\n' })
  })
})

needs('microvm').describe('machines of one template', { timeout: MINUTES }, () => {
  let backend: Backend
  beforeAll(async () => {
    backend = await createMicrovmBackend({ runtime_dir })
  })
  afterAll(() => backend[Symbol.asyncDispose]())

  needs('microvm', 'cgroups').it('are in a cgroup with limits, which goes with them', async () => {
    const spec = bashSpec(owner, 'sleep 600')
    await using sandbox = await backend.open(spec, signal)
    const id = String(sandbox.ref.handle['slot'])
    const [pid = -1] = await machinesOf(runtime_dir)
    expect(readFileSync(`/proc/${pid}/cgroup`, 'utf8')).toContain(`/cofferdam/${id}`)
    const groups = await groupsOf(id)
    const limit = async (...files: string[]): Promise<number> => {
      const texts = groups.flatMap((group) =>
        files.map((file) => readFile(join(group, file), 'utf8').catch(() => '')),
      )
      return Number((await Promise.all(texts)).find((text) => text !== ''))
    }
    expect(await limit('memory.max', 'memory.limit_in_bytes')).toBeLessThanOrEqual(1100 * MiB)
    expect(await limit('pids.max')).toBeLessThanOrEqual(100)
    await sandbox[Symbol.asyncDispose]()
    expect(await groupsOf(id)).toEqual([])
  })

  needs('microvm', 'cgroup-v1').it('end as out of memory if the host kills one for it', async () => {
    const spec = bashSpec(owner, 'echo up; x=$(head -c 80M /dev/zero | tr "\\0" x); sleep 600')
    await using sandbox = await backend.open(spec, signal)
    const id = String(sandbox.ref.handle['slot'])
    const group = (await groupsOf(id)).find((path) => path.includes('/memory/')) ?? ''
    // Set a limit below what the program is about to take and above what the machine uses now.
    const taken = Number(await readFile(join(group, 'memory.usage_in_bytes'), 'utf8'))
    await writeFile(join(group, 'memory.limit_in_bytes'), String(taken + 24 * MiB))
    const exit = await sandbox.run(spec.program, {
      onOutput: () => {},
      maxOutputBytes: { stdout: 1000, stderr: 1000 },
      signal,
    })
    expect(exit.oomKills).toBeGreaterThan(0)
  })

  needs('microvm').it('share its memory, so that each takes less than it would alone', async () => {
    const opened = await Promise.all([1, 2, 3, 4].map(() => backend.open(bashSpec(owner, 'true'), signal)))
    const pids = await machinesOf(runtime_dir)
    expect(pids.length).toBe(opened.length)
    const together = await Promise.all(pids.map(proportionalShare))
    await Promise.all(opened.slice(1).map((sandbox) => sandbox[Symbol.asyncDispose]()))
    const [alone = -1] = await machinesOf(runtime_dir)
    const single = (await proportionalShare(alone)) ?? 0
    const each = together.map((bytes) => Math.round((bytes ?? 0) / MiB)).join(', ')
    console.log(`PSS of a machine alone: ${Math.round(single / MiB)} MiB; of each of four: ${each} MiB`)
    expect(Math.max(...together.map((bytes) => bytes ?? Infinity))).toBeLessThan(single)
    await opened[0]?.[Symbol.asyncDispose]()
  })

  needs('microvm').it('that wait are given up when somebody changes the template under them', async () => {
    let waiting = 0
    const dropped: string[] = []
    const warm = warmSlots(owner, { pools: { start: [{ language: 'bash' }], max_idle: 1 } })
    await using pool = await createMicrovmBackend(
      { runtime_dir },
      {
        warm: {
          ...warm,
          observe(event) {
            if (event.type === 'warmed') waiting += 1
            if (event.type === 'dropped') dropped.push(event.why)
          },
        },
      },
    )
    pool.prewarm?.()
    await expect.poll(() => waiting, SOON).toBe(1)
    const [name = ''] = await templatesOf(runtime_dir)
    const memory = await open(join(runtime_dir, 'microvm/templates', name, 'memory'), 'r+')
    const { size } = await memory.stat()
    await memory.write(Buffer.from('poison'), 0, 6, size - 4096)
    await memory.close()
    // The first execution is refused, or gets a machine of a new template. No execution gets the waiting
    // machine.
    const first = await printed(pool, 'echo fresh').catch((error: unknown) => error)
    expect(first instanceof Error ? { text: 'fresh\n', warm: false } : first).toMatchObject({ warm: false })
    if (first instanceof Error) expect(first).toMatchObject({ code: 'sandbox_open_failed' })
    expect(dropped).toContain('died')
    expect(await printed(pool, 'echo fresh')).toMatchObject({ text: 'fresh\n' })
  })
})
