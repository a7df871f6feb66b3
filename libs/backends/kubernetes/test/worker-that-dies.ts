/**
 * Runs as its own process, to be killed: a worker that takes turns of a session of the `kubernetes` backend.
 * Sends the message `here` and stops before or after its n-th entry is written, or (`run`) while its n-th
 * program runs.
 */
import type { SandboxSpec } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { createSessionRegistry } from '@cofferdam/sessions'
import { createKubernetesBackend } from '../src/index.ts'
import { keptThrough } from './kept-through.ts'
import { printed } from '@cofferdam/backend-remote/testing'

const [given = '{}'] = process.argv.slice(2)
const { settings, redisUrl, spec, turns, stopAt } = JSON.parse(given) as {
  settings: Parameters<typeof createKubernetesBackend>[0]
  redisUrl: string
  spec: SandboxSpec
  turns: number
  stopAt: string
}

async function moment(name: string): Promise<void> {
  if (name !== stopAt) return
  process.send?.('here')
  await new Promise<never>(() => setInterval(() => undefined, 60_000))
}

const registry = createSessionRegistry({ redis: connectRedis(redisUrl, 'worker') })
let kept = 0
const watched = keptThrough(registry, async (write) => {
  kept += 1
  await moment(`before ${kept}`)
  await write()
  await moment(`after ${kept}`)
})
const backend = createKubernetesBackend(settings, { sessions: watched })
for (let turn = 1; turn <= turns; turn += 1) {
  const sandbox = await backend.open(spec, new AbortController().signal)
  const program = spec.program
  if (stopAt === `run ${turn}`) {
    const endless = {
      type: 'script',
      language: 'python',
      source: "import time; print('up', flush=True); time.sleep(600)",
    } as const
    await sandbox.run(endless, {
      onOutput: () => moment(stopAt),
      maxOutputBytes: { stdout: 100, stderr: 100 },
      signal: new AbortController().signal,
    })
  }
  await printed(sandbox, program)
  await sandbox[Symbol.asyncDispose]()
}
