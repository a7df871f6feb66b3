/**
 * envd, the daemon inside of an E2B sandbox (port 49983), as far as we need it: files go in, one process starts, and its
 * stdin and stdout become a byte channel. envd 0.3.0 or newer (explicit stdin).
 */
import { Readable } from 'node:stream'
import { type Channel, multipart } from '@cofferdam/backend-remote'
import type { AgentFile } from './agent-command.ts'
import { encodeMessage } from './connect-messages.ts'
import { ask, settled, type PortAddress } from './envd-address.ts'
import { openProcessStream } from './process-stream.ts'

/** envd says so often that a silent stream is alive: below the minute after which load balancers end one. As E2B's SDK asks for. */
const KEEPALIVE_SECONDS = '50'

export interface Envd {
  /** Uploads files under their absolute paths, folders included. */
  upload(files: readonly AgentFile[], signal: AbortSignal): Promise<void>
  /** Starts a process; resolves when envd says that it runs. Its stream ends with `sandbox_lost` when it is cut off. */
  start(argv: readonly string[], tag: string, signal: AbortSignal): Promise<Channel>
  /** The same to a process that was started under this tag, from now on. Throws `sandbox_lost` when there is none. */
  connect(tag: string, signal: AbortSignal): Promise<Channel>
}

/** Creates the client of one sandbox's envd. */
export function createEnvd(address: PortAddress, timeoutMs: number): Envd {
  const inTime = (signal: AbortSignal): AbortSignal =>
    AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])

  async function sendInput(pid: number, stdin: string, signal: AbortSignal): Promise<void> {
    const response = await ask(address, '/process.Process/SendInput', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Connect-Protocol-Version': '1' },
      body: JSON.stringify({ process: { pid }, input: { stdin } }),
      signal: inTime(signal),
    })
    await settled(address, response)
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
      const response = await ask(address, `/process.Process/${method}`, {
        method: 'POST',
        headers: {
          'Content-Type': 'application/connect+json',
          'Connect-Protocol-Version': '1',
          'Keepalive-Ping-Interval': KEEPALIVE_SECONDS,
        },
        body: new Uint8Array(encodeMessage(message)),
        signal: stop.signal,
      })
      if (!response.ok || response.body === null) await settled(address, response)
      return await openProcessStream(response.body ?? Readable.from([]), { sendInput, stop })
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
      const { body, type } = multipart(files)
      const response = await ask(address, '/files', {
        method: 'POST',
        headers: { 'Content-Type': type },
        body,
        signal: inTime(signal),
      })
      await settled(address, response)
    },

    // No deadline of Connect's: that would end the agent, whose life is the sandbox's.
    start: ([cmd = '', ...args], tag, signal) =>
      stream('Start', { process: { cmd, args, envs: {} }, tag, stdin: true }, signal),
    connect: (tag, signal) => stream('Connect', { process: { tag } }, signal),
  }
}
