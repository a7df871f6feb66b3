/**
 * Client of envd, the daemon in an E2B sandbox (port 49983): uploads files and starts one process, whose
 * stdin and stdout become a byte channel. Needs envd 0.3.0 or newer (explicit stdin).
 */
import { Readable } from 'node:stream'
import { type Channel, multipart } from '@cofferdam/backend-remote'
import type { AgentFile } from './agent-command.ts'
import { encodeMessage } from './connect-messages.ts'
import { ask, settled, type PortAddress } from './envd-address.ts'
import { openProcessStream } from './process-stream.ts'

/** Interval of envd's keepalives, as in E2B's SDK: load balancers end a stream after a silent minute. */
const KEEPALIVE_SECONDS = '50'

export interface Envd {
  /** Uploads files to their absolute paths and creates folders. */
  upload(files: readonly AgentFile[], signal: AbortSignal): Promise<void>
  /**
   * Starts a process; resolves when it runs. If the stream of its output is cut off, that stream ends with an
   * error.
   */
  start(argv: readonly string[], tag: string, signal: AbortSignal): Promise<Channel>
  /** Connects to the running process with this tag. Throws `sandbox_lost` if there is none. */
  connect(tag: string, signal: AbortSignal): Promise<Channel>
}

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

  /** Opens the stream of a process. `signal` can abort the opening, but not the open stream. */
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

    // Send no `Connect-Timeout-Ms`: that deadline would end the agent, which lives as long as the sandbox.
    start: ([cmd = '', ...args], tag, signal) =>
      stream('Start', { process: { cmd, args, envs: {} }, tag, stdin: true }, signal),
    connect: (tag, signal) => stream('Connect', { process: { tag } }, signal),
  }
}
