/**
 * Run as a process of its own. With a marker: opens a sandbox whose program leaves processes, says so, and waits to be
 * killed. With a program as JSON: runs that, passes its output on and ends.
 */
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  type Program,
  type WorkerId,
} from '@cofferdam/contract'
import { processConfigSchema } from '../src/process/config.ts'
import { createBackend } from '../src/process/index.ts'

const [settings = '{}', owner = '', marker = ''] = process.argv.slice(2)
const given = marker.startsWith('{') ? (JSON.parse(marker) as Program) : null
const program: Program = given ?? {
  type: 'command',
  shell: `(trap '' INT TERM HUP; setsid bash -c 'exec -a ${marker} sleep 600') & bash -c 'exec -a ${marker} sleep 600' & echo up; sleep 600`,
}
const signal = new AbortController().signal
const backend = await createBackend(processConfigSchema.parse(JSON.parse(settings)), {})
const sandbox = await backend.open(
  {
    sandboxId: newSandboxId(),
    executionId: newExecutionId(),
    attempt: 1,
    tenantId: 'tenant',
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
  onOutput: (_stream, chunk) => void process.stdout.write(chunk),
  maxOutputBytes: { stdout: 1000, stderr: 1000 },
  signal,
})
await backend[Symbol.asyncDispose]()
