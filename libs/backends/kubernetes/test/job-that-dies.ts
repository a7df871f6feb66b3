/**
 * Run as a process of its own, to be killed: a worker that runs one execution on the `kubernetes` backend. It says `here` and goes no
 * further when its pod is open, when its program runs, or just before it ends (`stopAt`).
 */
import type { SandboxSpec } from '@cofferdam/contract'
import { createKubernetesBackend } from '../src/index.ts'

const [given = '{}'] = process.argv.slice(2)
const { settings, spec, stopAt } = JSON.parse(given) as {
  settings: Parameters<typeof createKubernetesBackend>[0]
  spec: SandboxSpec
  stopAt: string
}

function reached(moment: string): boolean {
  if (moment === stopAt) process.send?.('here')
  return moment === stopAt
}

setInterval(() => undefined, 60_000)
const never = new AbortController().signal
const sandbox = await createKubernetesBackend(settings).open(spec, never)
if (reached('opened')) await new Promise<never>(() => undefined)
if (reached('ending')) await sandbox[Symbol.asyncDispose]()
await sandbox.run(spec.program, {
  onOutput: () => void reached('running'),
  maxOutputBytes: { stdout: 100, stderr: 100 },
  signal: never,
})
