/** A process's stream at envd as a byte channel: output arrives as events, input is sent by calls. */
import { Readable } from 'node:stream'
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { writableOf, type Channel } from '@cofferdam/backend-remote'
import { decodeMessages } from './connect-messages.ts'

/** Input per call: 350 KiB in base64, well below the limits of proxies. */
const INPUT_MAX = 256 * 1024
/** The end of the agent's stderr, for the error message. */
const STDERR_MAX = 4096

/** Bytes in proto3's JSON (protobuf.dev/programming-guides/json): either alphabet, optional padding. */
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
  /** Sends base64 bytes to the process. Rejects unless they certainly arrived. */
  sendInput(this: void, pid: number, base64Bytes: string, signal: AbortSignal): Promise<void>
  /** Ends the stream's request. */
  stop: AbortController
}

/** Resolves when the process runs. Throws `sandbox_lost` or `protocol_violation`. */
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
      // Part of the input may have arrived, and nothing is sent twice.
      throw new CofferdamError('sandbox_lost', 'E2B: input did not reach the sandbox.', { cause: error })
    }
  }
  const writable = writableOf(send)
  // Ends the output too, because the agent is useless without input.
  writable.on('error', (error) => readable.destroy(error))
  // Nobody listens after the session was closed, and an unhandled error event would end the worker.
  readable.on('error', () => {})
  return { readable, writable, stderrTail: () => stderr.toString('utf8') }
}

/** envd reports the pid before the first byte of output. */
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
