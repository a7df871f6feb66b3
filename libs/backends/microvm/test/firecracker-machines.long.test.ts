/**
 * The backend with `engine: firecracker`, as a worker has it, on `cofferdam double firecracker --machines`.
 * The conformance suite beside it has the rest.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { newWorkerId, type Backend } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect } from 'vitest'
import { createMicrovmBackend } from '../src/index.ts'
import { OF_NODE, OF_PYTHON, printedBy, specOf } from './clones.ts'
import { firecrackerMachines, type FirecrackerMachines } from './firecracker-machines.ts'

const { describe, it } = needs('microvm', 'root', 'mounts', 'setpriv', 'cgroups')
const MINUTES = 600_000
const owner = newWorkerId('c0ffee00fc01')
const never = new AbortController().signal

describe('the backend on the engine firecracker', { timeout: MINUTES }, () => {
  let machines: FirecrackerMachines
  let backend: Backend
  beforeAll(async () => {
    machines = await firecrackerMachines()
    backend = await createMicrovmBackend(machines.config)
    expect(await backend.probe(AbortSignal.timeout(MINUTES))).toMatchObject({ ok: true })
  }, MINUTES)
  afterAll(async () => {
    await backend?.[Symbol.asyncDispose]()
    await machines?.[Symbol.asyncDispose]()
  })

  it('says that its machines are emulated, and has made one template by a boot and a snapshot', async () => {
    expect(backend.isolation).toBe('microvm-emulated')
    const calls = machines.calls()
    const counted = (call: string): number => calls.filter((one) => one === call).length
    expect([counted('PUT /actions'), counted('PUT /snapshot/create')]).toEqual([1, 1])
    expect(counted('PUT /snapshot/load')).toBe(1)
    expect(machines.left()).toEqual([])
  })

  it('runs Python and Node with files in both directions', async () => {
    const spec = specOf(owner, 'python', 'open("out.txt", "w").write(open("in.txt").read().upper())')
    await using sandbox = await backend.open(spec, never)
    await sandbox.write([{ path: 'in.txt', bytes: Buffer.from('hello') }])
    const io = { onOutput: () => {}, maxOutputBytes: { stdout: 1000, stderr: 1000 }, signal: never }
    expect(await sandbox.run(spec.program, io)).toMatchObject({ exitCode: 0 })
    expect(Buffer.from(await sandbox.read('out.txt', 100)).toString()).toBe('HELLO')
    expect(await printedBy(backend, specOf(owner, 'javascript', 'console.log(6 * 7)'))).toBe('42\n')
  })

  it('ends a program that never ends, and the whole machine by its ref', async () => {
    const endless = specOf(owner, 'python', 'print("runs", flush=True)\nwhile True: pass')
    const sandbox = await backend.open(endless, never)
    const stop = new AbortController()
    const running = sandbox.run(endless.program, {
      onOutput: () => stop.abort(new Error('hard deadline')),
      maxOutputBytes: { stdout: 1000, stderr: 1000 },
      signal: stop.signal,
    })
    await expect(running).rejects.toThrow('hard deadline')
    expect(machines.left()).not.toEqual([])
    expect(await backend.kill(sandbox.ref)).toBe(true)
    expect(machines.left()).toEqual([])
    await sandbox[Symbol.asyncDispose]()
  })

  it('gives two clones no random number in common, and leaves the template as it was', async () => {
    const templates = join(machines.chrootBase, 'state/microvm/templates')
    const digests = (): string[] =>
      readdirSync(templates, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => readFileSync(join(entry.parentPath, entry.name)))
        .map((bytes) => createHash('sha256').update(bytes).digest('hex'))
    const before = digests()
    expect(before).not.toEqual([])
    for (const [language, source] of [
      ['python', OF_PYTHON],
      ['javascript', OF_NODE],
    ] as const) {
      const earliest = Date.now()
      const texts = [
        await printedBy(backend, specOf(owner, language, source)),
        await printedBy(backend, specOf(owner, language, source)),
      ]
      const [one, two] = texts.map((text) => JSON.parse(text) as Record<string, unknown>)
      for (const name of Object.keys(one ?? {})) expect(one?.[name], name).not.toEqual(two?.[name])
      expect(one?.['now_ms']).toBeGreaterThanOrEqual(earliest)
      expect(two?.['now_ms']).toBeLessThanOrEqual(Date.now())
    }
    expect(digests()).toEqual(before)
  })

  it('ends what a killed worker left, by the sweep of its owner', async () => {
    const spec = specOf(owner, 'bash', 'echo runs; sleep 600')
    const script = fileURLToPath(new URL('worker-that-dies.ts', import.meta.url))
    const worker = spawn(process.execPath, [script, JSON.stringify({ config: machines.config, spec })], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [said] = (await once(worker.stdout, 'data')) as [Buffer]
    expect(said.toString()).toBe('runs\n')
    worker.kill('SIGKILL')
    await once(worker, 'exit')
    expect(await backend.owners()).toContain(owner)
    expect(machines.left()).not.toEqual([])
    await backend.sweep(owner)
    expect(await backend.owners()).not.toContain(owner)
    expect(machines.left()).toEqual([])
  })
})
