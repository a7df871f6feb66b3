/** Opens that are aborted while the helper binary forks: nothing of them may remain in /proc. */
import { spawn } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  type SandboxSpec,
} from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { expect, vi } from 'vitest'
import { processConfigSchema } from '../src/process/config.ts'
import { createBackend } from '../src/process/index.ts'
import { runtimeFolder } from './host-rungs.ts'

const withBwrap = needs('bwrap')
const runtimeDir = runtimeFolder()
const owner = newWorkerId('abcdefabcdef')

const specOf = (): SandboxSpec => ({
  sandboxId: newSandboxId(),
  executionId: newExecutionId(),
  attempt: 1,
  tenantId: 'tenant',
  owner,
  program: { type: 'command', argv: ['true'] },
  limits: DEFAULT_LIMITS,
  network: 'none',
  env: {},
  preload: null,
  reuse: 'job',
  session: null,
})

/** Living processes whose command line contains the text. Zombies have none. */
function running(text: string): string[] {
  return readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(text)
    } catch {
      return false
    }
  })
}

withBwrap.it('leaves no process of an open that is aborted while its helper forks', async () => {
  const marker = `fork${newSandboxId()}`
  const stand = join(runtimeDir, 'bwrap')
  // Simulates a bwrap that has cloned its child, but has not yet made the child die with it. It never reports
  // a child, and starts 150 processes. The trial start, without --info-fd, uses the real bwrap.
  writeFileSync(
    stand,
    `#!/bin/bash
case " $* " in
  *" --info-fd "*) for n in $(seq 150); do (exec -a ${marker} sleep 600) & done; wait ;;
  *) exec /usr/bin/bwrap "$@" ;;
esac
`,
  )
  chmodSync(stand, 0o755)
  await using backend = await createBackend(
    processConfigSchema.parse({ jail: 'bwrap', bwrap: stand, runtime_dir: runtimeDir }),
    {},
  )
  expect(await backend.probe(new AbortController().signal)).toMatchObject({ ok: true })
  for (let round = 0; round < 6; round++) {
    const stop = new AbortController()
    const opening = backend.open(specOf(), stop.signal)
    opening.catch(() => {})
    await vi.waitFor(() => expect(running(marker)).not.toEqual([]), { timeout: 20_000, interval: 2 })
    const reason = new Error('given up')
    stop.abort(reason)
    await expect(opening).rejects.toBe(reason)
    await sleep(0)
    const left = running(marker)
    for (const pid of left) process.kill(Number(pid), 'SIGKILL')
    expect(left, `round ${round}`).toEqual([])
  }
  expect(await backend.owners()).toEqual([])
})

withBwrap.it(
  'reports the last words of a jail that does not start, also if it says more than is kept',
  async () => {
    const stand = join(runtimeDir, 'talking-bwrap')
    writeFileSync(
      stand,
      `#!/bin/bash
case " $* " in
  *" --info-fd "*) head -c 6000 /dev/zero | tr '\\0' x >&2; echo "the last words" >&2; exit 1 ;;
  *) exec /usr/bin/bwrap "$@" ;;
esac
`,
    )
    chmodSync(stand, 0o755)
    await using backend = await createBackend(
      processConfigSchema.parse({ jail: 'bwrap', bwrap: stand, runtime_dir: runtimeDir }),
      {},
    )
    expect(await backend.probe(new AbortController().signal)).toMatchObject({ ok: true })
    await expect(backend.open(specOf(), AbortSignal.timeout(30_000))).rejects.toMatchObject({
      code: 'sandbox_open_failed',
      details: { said: expect.stringMatching(/^x{4000,4096}the last words\n$/) },
    })
  },
)

withBwrap.it('sweeps a process whose worker died before it wrote the record', async () => {
  await using backend = await createBackend(
    processConfigSchema.parse({ jail: 'bwrap', runtime_dir: runtimeDir }),
    {},
  )
  expect(await backend.probe(new AbortController().signal)).toMatchObject({ ok: true })
  const id = newSandboxId()
  mkdirSync(join(runtimeDir, 'sandboxes', 'process', owner, id), { recursive: true })
  const stuck = spawn('sleep', ['600'], { env: { COFFERDAM_SANDBOX: id } })
  const other = spawn('sleep', ['600'], { env: { COFFERDAM_SANDBOX: newSandboxId() } })
  try {
    const ended = new Promise((resolve) => stuck.once('exit', (_code, signal) => resolve(signal)))
    expect(await backend.sweep(owner)).toEqual({ destroyed: 1 })
    expect(await ended).toBe('SIGKILL')
    expect(other.exitCode ?? other.signalCode).toBeNull()
    expect(await backend.owners()).not.toContain(owner)
  } finally {
    stuck.kill('SIGKILL')
    other.kill('SIGKILL')
  }
})
