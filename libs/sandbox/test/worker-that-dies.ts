/**
 * Runs as its own process. With `idle`: keeps warm slots and an unused cell, prints the pids of all, and
 * waits to be killed. With a marker: opens a sandbox whose program leaves processes, reports that, and waits
 * to be killed. With a program as JSON: runs it, passes its output on and ends.
 */
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  type Program,
  type SandboxSpec,
  type WorkerId,
} from '@cofferdam/contract'
import { warmSlots } from '../conformance/index.ts'
import { processConfigSchema } from '../src/process/config.ts'
import { createBackend } from '../src/process/index.ts'

const [settings = '{}', owner = '', marker = ''] = process.argv.slice(2)
const given = marker.startsWith('{') ? (JSON.parse(marker) as Program) : null
const program: Program = given ?? {
  type: 'command',
  shell: `(trap '' INT TERM HUP; setsid bash -c 'exec -a ${marker} sleep 600') & bash -c 'exec -a ${marker} sleep 600' & echo up; sleep 600`,
}
const signal = new AbortController().signal
const warm =
  marker === 'idle'
    ? { warm: warmSlots(owner as WorkerId, { pools: { start: [{ language: 'python' }] } }) }
    : {}
const backend = await createBackend(processConfigSchema.parse(JSON.parse(settings)), warm)
const spec = (what: Program, reuse: 'job' | 'tenant'): SandboxSpec => ({
  sandboxId: newSandboxId(),
  executionId: newExecutionId(),
  attempt: 1,
  tenantId: 'tenant',
  owner: owner as WorkerId,
  program: what,
  limits: DEFAULT_LIMITS,
  network: 'none',
  env: {},
  preload: null,
  reuse,
  session: null,
})
const io = {
  onOutput: (_stream: string, chunk: Uint8Array) => void process.stdout.write(chunk),
  maxOutputBytes: { stdout: 1000, stderr: 1000 },
  signal,
}

if (marker === 'idle') {
  const python: Program = { type: 'script', language: 'python', source: '' }
  const pids: number[] = []
  backend.prewarm?.()
  for (;;) {
    const slot = await backend.open(spec(python, 'job'), signal)
    await slot.run(python, io)
    await slot[Symbol.asyncDispose]()
    // The next slot is warming or ready. A warm one shows that the pool works.
    if (slot.warm) break
  }
  if (backend.capabilities.sessions.length > 0) {
    const turn = await backend.open(spec(python, 'tenant'), signal)
    await turn.run(python, io)
    pids.push(Number(turn.ref.handle['pid']))
    await turn[Symbol.asyncDispose]()
  }
  console.log(JSON.stringify(pids))
  setInterval(() => {}, 60_000)
} else {
  const sandbox = await backend.open(spec(program, 'job'), signal)
  await sandbox.run(program, io)
  await backend[Symbol.asyncDispose]()
}
