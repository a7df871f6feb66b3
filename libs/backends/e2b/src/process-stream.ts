/** The stream of a process at envd as a byte channel: its output comes as events, its input goes by calls. */
import { Readable } from 'node:stream'
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { writableOf, type Channel } from '@cofferdam/backend-remote'
import { decodeMessages } from './connect-messages.ts'

/** Of stdin in one call: base64 makes 350 KiB of it, well below what proxies take. */
const INPUT_MAX = 256 * 1024
/** The agent's last words, for the error that it ended with. */
const STDERR_MAX = 4096

/** What proto3's JSON takes for bytes (protobuf.dev/programming-guides/json): either alphabet, with padding or without; null is absent. */
const base64 = z.string().regex(/^(?:[\w+/-]{4})*(?:[\w+/-]{2}(?:==)?|[\w+/-]{3}=?)?$/)
const eventSchema = z.object({
  event: z
    .object({
      start: z.object({ pid: z.int().positive() }).nullish(),
      data: z.object({ stdout: base64.nullish(), stderr: base64.nullish() }).nullish(),
      end: z.object({ status: z.string().max(1000).nullish() }).nullish(),
      keepalive: z.unknown().optional(),
    })
    .nullish(),
})
const lastSchema = z.object({
  error: z.object({ code: z.string().max(64), message: z.string().max(10_000).nullish() }).nullish(),
})

export interface ProcessStreamParts {
  /** Gives the process bytes, in base64; rejects when they did not reach it, or when that is not known. */
  sendInput(this: void, pid: number, base64Bytes: string, signal: AbortSignal): Promise<void>
  /** Ends the stream's request. */
  stop: AbortController
}

/** Resolves when envd says that the process runs. Throws `sandbox_lost` | `protocol_violation`. */
export async function openProcessStream(
  body: AsyncIterable<Uint8Array>,
  { sendInput, stop }: ProcessStreamParts,
): Promise<Channel> {
  let stderr = Buffer.alloc(0)
  const messages = decodeMessages(body)
  const pid = await firstPid(messages)

  async function* stdout(): AsyncGenerator<Buffer> {
    for await (const { isLast, json } of messages) {
      if (isLast) return failIfError(json)
      const { data, end } = parsedEvent(json)
      if (data?.stderr)
        stderr = Buffer.concat([stderr, Buffer.from(data.stderr, 'base64')]).subarray(-STDERR_MAX)
      if (data?.stdout) yield Buffer.from(data.stdout, 'base64')
      if (end) return
    }
  }

  const readable = Readable.from(stdout(), { objectMode: false })
  readable.once('close', () => stop.abort())
  const send = async (bytes: Buffer): Promise<void> => {
    try {
      for (let at = 0; at < bytes.length; at += INPUT_MAX)
        await sendInput(pid, bytes.subarray(at, at + INPUT_MAX).toString('base64'), stop.signal)
    } catch (error) {
      // Whatever the reason: part of it may be there, and nothing is sent twice.
      throw new CofferdamError('sandbox_lost', 'E2B: input did not reach the sandbox.', { cause: error })
    }
  }
  const writable = writableOf(send)
  // The reader learns of it: without input the agent is of no use.
  writable.on('error', (error) => readable.destroy(error))
  // A session that is over listens no more.
  readable.on('error', () => {})
  return { readable, writable, stderrTail: () => stderr.toString('utf8') }
}

/** envd tells the pid before the first byte of output. */
async function firstPid(messages: AsyncGenerator<{ isLast: boolean; json: unknown }>): Promise<number> {
  for (;;) {
    const { value, done } = await messages.next()
    if (done === true) throw new CofferdamError('sandbox_lost', 'E2B: the stream ended at once.')
    if (value.isLast) {
      failIfError(value.json)
      throw new CofferdamError('protocol_violation', 'E2B: a process without a start.')
    }
    const { start } = parsedEvent(value.json)
    if (start) return start.pid
  }
}

function parsedEvent(json: unknown): NonNullable<z.output<typeof eventSchema>['event']> {
  const parsed = eventSchema.safeParse(json)
  if (!parsed.success)
    throw new CofferdamError('protocol_violation', 'E2B: an event that envd does not have.')
  return parsed.data.event ?? {}
}

function failIfError(json: unknown): void {
  const parsed = lastSchema.safeParse(json)
  const error = parsed.success ? parsed.data.error : { code: 'unknown' }
  if (!error) return
  throw new CofferdamError('sandbox_lost', `E2B: the stream ended with ${error.code}.`, {
    details: { said: error.message ?? '' },
  })
}
