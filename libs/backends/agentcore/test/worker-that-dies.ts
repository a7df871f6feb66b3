/**
 * Run as a process of its own, to be killed: a worker with the AgentCore backend, which keeps sessions ready, or runs one program
 * in a session that it starts; with the URL of a Redis, in one that is kept. Prints what the program prints, `ended` when it has
 * ended and `rests` when its sandbox is given back, and stays.
 */
import type { SandboxSpec } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { createSessionRegistry } from '@cofferdam/sessions'
import { warmSlots } from '@cofferdam/sandbox/conformance'
import { createAgentcoreBackend } from '../src/index.ts'

/** What it is told, as JSON in its argument. */
export interface DyingWorker {
  settings: Parameters<typeof createAgentcoreBackend>[0]
  spec: SandboxSpec
  /** Runs nothing, and keeps sessions ready. */
  waits?: boolean
  redisUrl?: string
}

const [given = '{}'] = process.argv.slice(2)
const { settings, spec, waits = false, redisUrl } = JSON.parse(given) as DyingWorker
const backend = createAgentcoreBackend(settings, {
  warm: warmSlots(spec.owner),
  ...(redisUrl === undefined
    ? {}
    : { sessions: createSessionRegistry({ redis: connectRedis(redisUrl, 'worker') }) }),
})
setInterval(() => {}, 60_000)
if (waits) backend.prewarm?.()
else {
  const { signal } = new AbortController()
  const sandbox = await backend.open(spec, signal)
  await sandbox.run(spec.program, {
    onOutput: (_stream, chunk) => void process.stdout.write(chunk),
    maxOutputBytes: { stdout: 1000, stderr: 1000 },
    signal,
  })
  process.stdout.write('ended\n')
  await sandbox[Symbol.asyncDispose]()
  process.stdout.write('rests\n')
}
