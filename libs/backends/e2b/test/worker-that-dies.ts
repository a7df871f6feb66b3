/**
 * Runs as its own process, to be killed: a worker with the E2B backend that runs programs one after the
 * other, in turns of a session or in separate sandboxes. Prints the programs' output and the end of each turn
 * as lines of JSON. If told so, it prints `here` and stops before it writes its n-th entry.
 */
import type { SandboxSpec, SessionEntry, SessionRegistry } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { createSessionRegistry } from '@cofferdam/sessions'
import { createE2bBackend } from '../src/index.ts'
import { python } from '@cofferdam/backend-remote/testing'

const [given = '{}'] = process.argv.slice(2)
const { settings, redisUrl, spec, sources, stopBefore } = JSON.parse(given) as {
  settings: Parameters<typeof createE2bBackend>[0]
  redisUrl: string
  spec: SandboxSpec
  sources: string[]
  stopBefore: number | null
}
const say = (what: object): void => void process.stdout.write(`${JSON.stringify(what)}\n`)
const registry = createSessionRegistry({ redis: connectRedis(redisUrl, 'worker') })
let kept = 0
const watched: SessionRegistry = {
  ...registry,
  async claim(...asked) {
    const lease = await registry.claim(...asked)
    const keep = lease.keep.bind(lease)
    return Object.assign(lease, {
      async keep(entry: SessionEntry) {
        kept += 1
        if (kept === stopBefore) {
          say({ here: true })
          await new Promise<never>(() => setInterval(() => undefined, 60_000))
        }
        await keep(entry)
      },
    })
  },
}
const backend = createE2bBackend(settings, { sessions: watched })
const { signal } = new AbortController()
for (const source of sources) {
  const sandbox = await backend.open({ ...spec, program: python(source) }, signal)
  await sandbox.run(python(source), {
    onOutput: (_stream, chunk) => say({ printed: Buffer.from(chunk).toString() }),
    maxOutputBytes: { stdout: 1000, stderr: 1000 },
    signal,
  })
  await sandbox[Symbol.asyncDispose]()
  say({ over: true })
}
setInterval(() => {}, 60_000)
