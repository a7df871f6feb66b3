/**
 * Runs as its own process, to be killed: a worker with the AgentCore backend. It either only keeps warm
 * sessions, or runs one program, in a kept session if it gets the URL of a Redis. It prints the program's
 * output, `ended` when the program has ended, and `rests` when the sandbox is given back. Then it stays.
 */
import type { SandboxSpec } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { createSessionRegistry } from '@cofferdam/sessions'
import { warmSlots } from '@cofferdam/sandbox/conformance'
import { createAgentcoreBackend } from '../src/index.ts'

/** Its instructions, as JSON in its argument. */
export interface DyingWorker {
  settings: Parameters<typeof createAgentcoreBackend>[0]
  spec: SandboxSpec
  /** Runs nothing and keeps warm sessions. */
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
