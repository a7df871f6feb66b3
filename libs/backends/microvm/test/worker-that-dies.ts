/** Runs as its own process, to be killed: a worker whose machine runs a program that never ends. */
import type { SandboxSpec } from '@cofferdam/contract'
import { createMicrovmBackend } from '../src/index.ts'

const [given = '{}'] = process.argv.slice(2)
const { config, spec } = JSON.parse(given) as { config: object; spec: SandboxSpec }
const backend = await createMicrovmBackend(config)
const { signal } = new AbortController()
const sandbox = await backend.open(spec, signal)
await sandbox.run(spec.program, {
  onOutput: (_stream, chunk) => void process.stdout.write(chunk),
  maxOutputBytes: { stdout: 1000, stderr: 1000 },
  signal,
})
