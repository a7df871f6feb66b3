/**
 * Run as a process of its own, to be killed: a worker with the AgentCore backend, which keeps sessions ready and, unless it is only
 * to wait, runs one program in a session that it starts. Prints what that prints.
 */
import type { SandboxSpec } from '@cofferdam/contract'
import { warmPlaces } from '../conformance/index.ts'
import { createAgentcoreBackend } from '../src/agentcore/index.ts'

const [given = '{}'] = process.argv.slice(2)
const { settings, spec, waits } = JSON.parse(given) as {
  settings: Parameters<typeof createAgentcoreBackend>[0]
  spec: SandboxSpec
  waits: boolean
}
const backend = createAgentcoreBackend(settings, { warm: warmPlaces(spec.owner) })
if (waits) {
  backend.prewarm?.()
  setInterval(() => {}, 60_000)
} else {
  const { signal } = new AbortController()
  const sandbox = await backend.open(spec, signal)
  await sandbox.run(spec.program, {
    onOutput: (_stream, chunk) => void process.stdout.write(chunk),
    maxOutputBytes: { stdout: 1000, stderr: 1000 },
    signal,
  })
  await sandbox[Symbol.asyncDispose]()
}
