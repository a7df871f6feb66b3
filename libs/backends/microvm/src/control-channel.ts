/** The conversation with the first process of a machine: lines of JSON on its port (guest/vm_init.py). */
import type { Duplex } from 'node:stream'
import { CofferdamError, unlessAborted } from '@cofferdam/contract'
import { z } from 'zod'

/** Longest line that is accepted. The guest may send anything. */
const LINE_MAX = 65_536
/** A guest sends one hello, one end, and one line per thaw. If it sends more, the channel is closed. */
const LINES_BESIDE_THAWS = 2

const saidSchema = z.union([
  z.strictObject({ hello: z.literal(1), kernel: z.string().max(128) }),
  z.strictObject({ nonce: z.string().max(128) }),
  z.strictObject({
    ended: z.int(),
    oom_kills: z.int().min(0),
    stderr: z.string().max(16_384),
  }),
])

/** How the agent ended, as the first process saw it. */
export interface AgentEnd {
  oomKills: number
  stderr: string
}

export interface ControlChannel {
  /** Resolves with the release of the guest's kernel once the guest waits for the host. */
  hello(signal: AbortSignal): Promise<string>
  /** Sends a thaw, also to a guest that was thawed before. Resolves when it has repeated the nonce. */
  thaw(words: { nonce: string }, signal: AbortSignal): Promise<void>
  /** Null if the machine ended without a word. */
  readonly ended: Promise<AgentEnd | null>
  /** What the agent wrote to stderr, once it has ended. */
  stderr(): string
  close(): void
}

export function createControlChannel(stream: Duplex): ControlChannel {
  const hello = Promise.withResolvers<string>()
  let thawed = Promise.withResolvers<string>()
  const ended = Promise.withResolvers<AgentEnd | null>()
  let text = ''
  let lines = 0
  let most = LINES_BESIDE_THAWS
  let isOver = false
  let stderr = ''
  let lost: CofferdamError | null = null
  for (const { promise } of [hello, thawed]) promise.catch(() => {})

  function end(why: string): void {
    if (isOver) return
    isOver = true
    lost ??= new CofferdamError('sandbox_open_failed', `The machine’s first process ${why}.`)
    hello.reject(lost)
    thawed.reject(lost)
    ended.resolve(null)
    stream.destroy()
  }

  function hear(line: string): void {
    const said = saidSchema.safeParse(parsedJson(line)).data
    if (said === undefined) return end('sent something else than it should')
    if ('hello' in said) return hello.resolve(said.kernel)
    if ('nonce' in said) return thawed.resolve(said.nonce)
    if (stderr === '') stderr = said.stderr
    const told = stderr.trim() === '' ? '' : `: ${stderr.trim().split('\n').at(-1)?.slice(0, 300) ?? ''}`
    ended.resolve({ oomKills: said.oom_kills, stderr })
    lost = new CofferdamError('sandbox_open_failed', `The agent ended${told}`)
    thawed.reject(lost)
  }

  stream.on('data', (chunk: Buffer) => {
    text += chunk.toString('utf8')
    for (let at = text.indexOf('\n'); at >= 0 && !isOver; at = text.indexOf('\n')) {
      const line = text.slice(0, at)
      text = text.slice(at + 1)
      lines += 1
      if (lines > most) end('says too much')
      else hear(line)
    }
    if (text.length > LINE_MAX) end('sent too long a line')
  })
  stream.on('error', () => end('is gone'))
  for (const event of ['end', 'close']) stream.on(event, () => end('is gone'))

  return {
    hello: (signal) => unlessAborted(hello.promise, signal),
    async thaw(words, signal) {
      most += 1
      thawed = Promise.withResolvers()
      thawed.promise.catch(() => {})
      if (lost !== null) thawed.reject(lost)
      stream.write(`${JSON.stringify(words)}\n`)
      const nonce = await unlessAborted(thawed.promise, signal)
      if (nonce !== words.nonce)
        throw new CofferdamError('sandbox_open_failed', 'The machine repeated another nonce.')
    },
    ended: ended.promise,
    stderr: () => stderr,
    close: () => void stream.destroy(),
  }
}

function parsedJson(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}
