/** Run as a process of its own, to be killed: opens a sandbox at Azure as a worker does, runs a program in it and ends it. */
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  type Program,
  type WorkerId,
} from '@cofferdam/contract'
import { createAzureBackend } from '../src/azure/index.ts'

const [settings = '{}', owner = ''] = process.argv.slice(2)
const program: Program = { type: 'script', language: 'python', source: 'print(1)' }
const signal = new AbortController().signal
const backend = createAzureBackend(JSON.parse(settings) as Parameters<typeof createAzureBackend>[0])
const sandbox = await backend.open(
  {
    sandboxId: newSandboxId(),
    executionId: newExecutionId(),
    attempt: 1,
    tenantId: 't',
    owner: owner as WorkerId,
    program,
    limits: DEFAULT_LIMITS,
    network: 'none',
    env: {},
    preload: null,
    reuse: 'job',
    session: null,
  },
  signal,
)
await sandbox.run(program, {
  onOutput: () => undefined,
  maxOutputBytes: { stdout: 1000, stderr: 1000 },
  signal,
})
await sandbox[Symbol.asyncDispose]()
