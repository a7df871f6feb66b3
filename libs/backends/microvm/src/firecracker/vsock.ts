/**
 * A stream to a port of the guest, by Firecracker’s handshake on its unix socket (docs/vsock.md, and
 * src/vmm/src/devices/virtio/vsock/unix/muxer.rs, read_local_stream_port):
 *
 *   connect ── "CONNECT 5005\n" ── "OK 1073741824\n" ── bytes of the stream
 *      │                └── closed without a word: nobody listens there yet; again, within the limit
 *      └── no file, or nobody behind it: again as well
 *
 * The line must come in one write: the VMM reads at once and drops a connection with half a line.
 */
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'

/** `OK ` and a port of at most ten digits. */
const ANSWER_BYTES = 64
const ANSWER = /^OK \d{1,10}$/

export interface VsockLimits {
  /** For all attempts together. */
  withinMs: number
  /**
   * For the answer of one attempt. While a guest boots, the VMM takes two seconds to close a connection that
   * nobody accepts.
   */
  answerMs: number
  signal: AbortSignal
}

/** Throws `sandbox_open_failed`, or the reason of the signal. Leaves no connection then. */
export async function connectVsock(path: string, port: number, limits: VsockLimits): Promise<Duplex> {
  const until = performance.now() + limits.withinMs
  for (let pause = 2; ; pause = Math.min(pause * 2, 20)) {
    limits.signal.throwIfAborted()
    const tried = await attempt(path, port, limits)
    if (typeof tried !== 'string') return tried
    limits.signal.throwIfAborted()
    if (performance.now() + pause > until)
      throw new CofferdamError(
        'sandbox_open_failed',
        `The guest’s port ${port} was not reached within ${limits.withinMs} ms: ${tried}.`,
      )
    await sleep(pause)
  }
}

/** Resolves with the stream, or with the reason to try again. Rejects if the answer is not valid. */
function attempt(path: string, port: number, limits: VsockLimits): Promise<Duplex | string> {
  const { promise, resolve, reject } = Promise.withResolvers<Duplex | string>()
  const socket = connect(path)
  let got = Buffer.alloc(0)

  const end = (settle: () => void): void => {
    clearTimeout(timer)
    limits.signal.removeEventListener('abort', onAbort)
    socket.off('connect', onConnect).off('close', onClose).off('readable', onReadable)
    settle()
  }
  const drop = (settle: () => void): void =>
    end(() => {
      socket.destroy()
      settle()
    })
  const again = (why: string): void => drop(() => resolve(why))
  const junk = (what: string): void =>
    drop(() =>
      reject(new CofferdamError('sandbox_open_failed', `The vsock answered ${what} to CONNECT ${port}.`)),
    )
  const onAbort = (): void => again('aborted')
  const onConnect = (): boolean => socket.write(`CONNECT ${port}\n`)
  const onClose = (): void => (got.length === 0 ? again('nobody listens there') : junk('half a line'))
  // Does not listen to `data`, which would make the stream flow. Its owner may later read it in any way.
  const onReadable = (): void => {
    for (let chunk = socket.read() as Buffer | null; chunk !== null; chunk = socket.read() as Buffer | null) {
      got = Buffer.concat([got, chunk])
      const line = got.subarray(0, ANSWER_BYTES).indexOf(0x0a)
      if (line < 0 && got.length >= ANSWER_BYTES) return junk('too much')
      if (line < 0) continue
      const answer = got.subarray(0, line).toString('latin1')
      if (!ANSWER.test(answer)) return junk(JSON.stringify(answer))
      const rest = got.subarray(line + 1)
      return end(() => {
        // What came with the answer belongs to the stream.
        if (rest.length > 0) socket.unshift(rest)
        resolve(socket)
      })
    }
  }
  const timer = setTimeout(() => again('no answer'), limits.answerMs)
  limits.signal.addEventListener('abort', onAbort, { once: true })
  socket.on('connect', onConnect).on('close', onClose).on('readable', onReadable)
  // This listener stays, so that a later error is not unhandled. The end of the stream tells its owner.
  socket.on('error', (error: NodeJS.ErrnoException) => again(error.code ?? error.message))
  return promise
}
