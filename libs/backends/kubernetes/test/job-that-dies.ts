/**
 * Runs as its own process, to be killed: a worker that runs one execution on the `kubernetes` backend. Sends
 * the message `here` when its pod is open, when its program runs, or just before it ends the sandbox
 * (`stopAt`).
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
