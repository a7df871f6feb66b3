/** What only a clone of a snapshot can do wrong. The conformance suite has everything else. */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import { readdir, readFile, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { newWorkerId, type Backend, type Language } from '@cofferdam/contract'
import { isLongTier, needs } from '@cofferdam/embedded/needs'
import { temporaryFolder } from '@cofferdam/embedded/testing'
import { defaultRuntimeDir } from '@cofferdam/sandbox/backend'
import { afterAll, beforeAll, expect } from 'vitest'
import { createMicrovmBackend } from '../src/index.ts'
import { OF_NODE, OF_PYTHON, printedBy, specOf } from './clones.ts'

const { describe, it, inLongTier } = needs('microvm')
const MINUTES = 600_000
/** Each clone is compared with all others. An emulated clone needs seconds of CPU time to start Node.js. */
const CLONES = isLongTier() ? 3 : 2

/**
 * The short tier uses the default folder. It already has a template, because scripts/machine-parts.ts tries
 * this backend before the tests.
 */
const runtime_dir = isLongTier() ? temporaryFolder('microvm') : defaultRuntimeDir()
const owner = newWorkerId('c0ffee00c10e')
let backend: Backend

const printed = (language: Language, source: string): Promise<string> =>
  printedBy(backend, specOf(owner, language, source))

const digestOf = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex')
async function templateFiles(): Promise<string[]> {
  const top = join(runtime_dir, 'microvm/templates')
  const newest = (await readdir(top))
    .map((name) => join(top, name, 'state'))
    .toSorted((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)[0]
  const state = newest ?? 'none'
  return [state, join(state, '../memory')]
}

describe('clones of one template', { timeout: MINUTES }, () => {
  beforeAll(async () => {
    backend = await createMicrovmBackend({ runtime_dir })
  })
  afterAll(() => backend[Symbol.asyncDispose]())

  it('share no random number and no identity, have the host’s time, and leave the template', async () => {
    await printed('bash', 'true')
    const files = await templateFiles()
    const before = files.map(digestOf)
    for (const [language, source] of [
      ['python', OF_PYTHON],
      ['javascript', OF_NODE],
    ] as const) {
      const seen = new Map<string, Set<unknown>>()
      for (let clone = 0; clone < CLONES; clone++) {
        // A clone that kept the clock of its template would be older than this moment.
        const earliest = Date.now()
        const { now_ms, ...drawn } = JSON.parse(await printed(language, source)) as Record<string, unknown>
        expect(now_ms).toBeGreaterThanOrEqual(earliest)
        expect(now_ms).toBeLessThanOrEqual(Date.now())
        for (const [name, value] of Object.entries(drawn))
          seen.set(name, (seen.get(name) ?? new Set()).add(value))
      }
      for (const [name, values] of seen) expect(values.size, `${language}: ${name}`).toBe(CLONES)
    }
    expect(files.map(digestOf)).toEqual(before)
  })

  inLongTier(
    'are refused once if somebody touched the template, which is then checked and made again',
    async () => {
      await printed('bash', 'true')
      const [state = ''] = await templateFiles()
      await utimes(state, 1, 1)
      await expect(printed('bash', 'true')).rejects.toMatchObject({
        code: 'sandbox_open_failed',
        message: expect.stringContaining('changed under this worker') as string,
      })
      expect(await printed('bash', 'echo again')).toBe('again\n')
    },
  )

  it('end with a worker that is killed, and the sweep of its owner finds the rest', async () => {
    const spec = specOf(owner, 'bash', 'echo runs; sleep 600')
    const script = fileURLToPath(new URL('worker-that-dies.ts', import.meta.url))
    const worker = spawn(process.execPath, [script, JSON.stringify({ config: { runtime_dir }, spec })], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [said] = (await once(worker.stdout, 'data')) as [Buffer]
    expect(said.toString()).toBe('runs\n')
    const machines = await readdir(join(runtime_dir, 'microvm/machines', owner))
    expect(await processesOf(machines)).toHaveLength(1)
    worker.kill('SIGKILL')
    await once(worker, 'exit')
    expect(await backend.owners()).toContain(owner)
    await backend.sweep(owner)
    expect(await backend.owners()).not.toContain(owner)
    expect(await processesOf(machines)).toEqual([])
  })
})

/** Processes of QEMU by the names of their machines. A zombie has no command line. */
async function processesOf(machines: readonly string[]): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(ids.map((id) => readFile(`/proc/${id}/cmdline`, 'latin1').catch(() => '')))
  return lines.filter((line) => machines.some((name) => line.includes(`\0cofferdam-${name}\0`)))
}
