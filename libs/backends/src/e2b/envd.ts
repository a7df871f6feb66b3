/**
 * envd, the daemon inside of an E2B sandbox (port 49983), as far as we need it: files go in, one process starts, and its
 * stdin and stdout become a byte channel. envd 0.3.0 or newer (explicit stdin).
 */
import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { writableOf, type Channel } from '../remote/channel.ts'
import { decodeMessages, encodeMessage } from './connect-messages.ts'

const ENVD_PORT = '49983'
export const INTERPRETER_PORT = '49999'
/** Of stdin in one call: base64 makes 350 KiB of it, well below what proxies take. */
const INPUT_MAX = 256 * 1024
/** The agent's last words, for the error that it ended with. */
const STDERR_MAX = 4096

const base64 = z.base64()
const eventSchema = z.object({
  event: z
    .object({
      start: z.object({ pid: z.int().positive() }).optional(),
      data: z.object({ stdout: base64.optional(), stderr: base64.optional() }).optional(),
      end: z.object({ status: z.string().max(1000).optional() }).optional(),
      keepalive: z.unknown().optional(),
    })
    .optional(),
})
const lastSchema = z.object({
  error: z.object({ code: z.string().max(64), message: z.string().max(10_000).optional() }).optional(),
})

/** How one port of a sandbox is reached, envd's where none is named. */
export interface EnvdAddress {
  sandboxId: string
  origin: string
  port: string
  accessToken: string | null
}

export interface Envd {
  /** Uploads files under their absolute paths, folders included. */
  upload(files: readonly { path: string; source: string }[], signal: AbortSignal): Promise<void>
  /** Starts a process; resolves when envd says that it runs. Its stream ends with `sandbox_lost` when it is cut off. */
  start(argv: readonly string[], tag: string, signal: AbortSignal): Promise<Channel>
  /** The same to a process that was started under this tag, from now on. Throws `sandbox_lost` when there is none. */
  connect(tag: string, signal: AbortSignal): Promise<Channel>
}

/** Where envd of a sandbox listens: a host name of its own, or one origin for all, which routes by our headers. */
export function envdAddress(
  created: {
    sandboxID: string
    envdAccessToken?: string | null | undefined
    domain?: string | null | undefined
  },
  config: { domain: string; sandbox_url?: string | undefined },
  port = ENVD_PORT,
): EnvdAddress {
  const { sandboxID: sandboxId } = created
  const domain = created.domain ?? config.domain
  return {
    sandboxId,
    origin: config.sandbox_url ?? `https://${port}-${sandboxId}.${domain}`,
    port,
    accessToken: created.envdAccessToken ?? null,
  }
}

/** Throws `sandbox_open_failed` when nothing answers as the code interpreter does. */
export async function requireInterpreter(address: EnvdAddress, signal: AbortSignal): Promise<void> {
  const response = await fetch(new URL('/health', address.origin), {
    headers: headersFor(address),
    signal,
    redirect: 'error',
  })
  await response.body?.cancel()
  if (!response.ok)
    throw new CofferdamError('sandbox_open_failed', 'E2B: the template has no code interpreter.', {
      details: { status: response.status },
    })
}

const headersFor = ({ sandboxId, port, accessToken }: EnvdAddress): Record<string, string> => ({
  'E2b-Sandbox-Id': sandboxId,
  'E2b-Sandbox-Port': port,
  ...(accessToken === null ? {} : { 'X-Access-Token': accessToken }),
})

/** Creates the client of one sandbox's envd. */
export function createEnvd(address: EnvdAddress, timeoutMs: number): Envd {
  const headers = headersFor(address)
  const url = (path: string): URL => new URL(path, address.origin)
  const inTime = (signal: AbortSignal): AbortSignal =>
    AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])

  async function rpc(method: string, message: unknown, signal: AbortSignal): Promise<void> {
    const response = await fetch(url(`/process.Process/${method}`), {
      method: 'POST',
      headers: { ...headers, 'Content-Type': 'application/json', 'Connect-Protocol-Version': '1' },
      body: JSON.stringify(message),
      signal: inTime(signal),
      redirect: 'error',
    })
    await settled(response)
  }

  /** A process's stream; `signal` ends the wait for its beginning, and nothing later. */
  async function stream(
    method: 'Start' | 'Connect',
    message: unknown,
    signal: AbortSignal,
  ): Promise<Channel> {
    const stop = new AbortController()
    const onAbort = (): void => stop.abort(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      signal.throwIfAborted()
      const response = await fetch(url(`/process.Process/${method}`), {
        method: 'POST',
        headers: {
          ...headers,
          'Content-Type': 'application/connect+json',
          'Connect-Protocol-Version': '1',
        },
        body: new Uint8Array(encodeMessage(message)),
        signal: stop.signal,
        redirect: 'error',
      })
      if (!response.ok || response.body === null) await settled(response)
      return await openChannel(response.body ?? Readable.from([]), { rpc, stop })
    } catch (error) {
      stop.abort()
      signal.throwIfAborted()
      throw error
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  return {
    async upload(files, signal) {
      const form = new FormData()
      for (const { path, source } of files) form.append('file', new Blob([readFileSync(source)]), path)
      const response = await fetch(url('/files'), {
        method: 'POST',
        headers,
        body: form,
        signal: inTime(signal),
        redirect: 'error',
      })
      await settled(response)
    },

    // No deadline of Connect's: that would end the agent, whose life is the sandbox's.
    start: ([cmd = '', ...args], tag, signal) =>
      stream('Start', { process: { cmd, args, envs: {} }, tag, stdin: true }, signal),
    connect: (tag, signal) => stream('Connect', { process: { tag } }, signal),
  }
}

interface ChannelParts {
  rpc: (method: string, message: unknown, signal: AbortSignal) => Promise<void>
  /** Ends the stream's request. */
  stop: AbortController
}

async function openChannel(body: AsyncIterable<Uint8Array>, { rpc, stop }: ChannelParts): Promise<Channel> {
  let stderr = ''
  const messages = decodeMessages(body)
  const pid = await firstPid(messages)

  async function* stdout(): AsyncGenerator<Buffer> {
    for await (const { isLast, json } of messages) {
      if (isLast) return failIfError(json)
      const { data, end } = parsedEvent(json)
      if (data?.stderr !== undefined)
        stderr = (stderr + Buffer.from(data.stderr, 'base64').toString('utf8')).slice(-STDERR_MAX)
      if (data?.stdout !== undefined && data.stdout !== '') yield Buffer.from(data.stdout, 'base64')
      if (end !== undefined) return
    }
  }

  const readable = Readable.from(stdout(), { objectMode: false })
  readable.once('close', () => stop.abort())
  const send = async (bytes: Buffer): Promise<void> => {
    for (let at = 0; at < bytes.length; at += INPUT_MAX)
      await rpc(
        'SendInput',
        {
          process: { pid },
          input: { stdin: bytes.subarray(at, at + INPUT_MAX).toString('base64') },
        },
        stop.signal,
      )
  }
  const writable = writableOf(send)
  // The reader learns of it: without input the agent is of no use.
  writable.on('error', (error) => readable.destroy(error))
  // A session that is over listens no more.
  readable.on('error', () => {})
  return { readable, writable, stderrTail: () => stderr }
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
    if (start !== undefined) return start.pid
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
  if (error === undefined) return
  throw new CofferdamError('sandbox_lost', `E2B: the stream ended with ${error.code}.`, {
    details: { said: error.message ?? '' },
  })
}

/** Reads the answer's end, so that its connection can be used again; throws for all but 2xx. */
async function settled(response: Response): Promise<void> {
  if (response.ok) {
    await response.body?.cancel()
    return
  }
  const said = (await response.text().catch(() => '')).slice(0, 300)
  // The proxy before a sandbox that is gone says 502; envd itself never does.
  if (response.status === 502 || response.status === 404)
    throw new CofferdamError('sandbox_lost', 'E2B: the sandbox is gone.', { details: { said } })
  throw new CofferdamError('sandbox_open_failed', `E2B: envd answered ${response.status}.`, {
    details: { said },
  })
}
