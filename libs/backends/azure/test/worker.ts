/**
 * Runs as its own process, to be killed: a worker that opens a sandbox at Azure, runs a program and ends the
 * sandbox. If it gets the URL of a Redis, it does this as a turn of the session `k`.
 */
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  type Program,
  type WorkerId,
} from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { createSessionRegistry } from '@cofferdam/sessions'
import { createAzureBackend } from '../src/index.ts'

const [settings = '{}', owner = '', redisUrl] = process.argv.slice(2)
const program: Program = { type: 'script', language: 'python', source: 'print(1)' }
const signal = new AbortController().signal
const backend = createAzureBackend(
  JSON.parse(settings) as Parameters<typeof createAzureBackend>[0],
  redisUrl === undefined
    ? {}
    : { sessions: createSessionRegistry({ redis: connectRedis(redisUrl, 'worker') }) },
)
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
    ...(redisUrl === undefined
      ? { reuse: 'job', session: null }
      : { reuse: 'session', session: { key: 'k', scope: 'interpreter', idleMs: null } }),
  },
  signal,
)
await sandbox.run(program, {
  onOutput: () => undefined,
  maxOutputBytes: { stdout: 1000, stderr: 1000 },
  signal,
})
await sandbox[Symbol.asyncDispose]()
