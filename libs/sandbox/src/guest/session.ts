/**
 * The worker's end of the frame protocol over any byte stream: everything that a Sandbox needs except open
 * and kill.
 *
 *   starting ──R── ready ──run── running ──X── ready            files are queued by write() and sent with the next job
 *   any ──stream ends, close(), violation── closed: pending calls reject with sandbox_lost | protocol_violation
 *
 * Memory is bounded whatever the guest sends: one chunk of the stream is in memory at a time, nothing is read
 * while `onOutput` is pending, and every frame must be an expected one, within the bytes that were agreed.
 */
import { CofferdamError, unlessAborted } from '@cofferdam/contract'
import { parseAnswer, type Answer } from './collect.ts'
import { parseReady, type GuestReady } from './evidence.ts'
import { createFrameWriter, drained } from './frame-writer.ts'
import { prepareRun, type GuestRun } from './guest-run.ts'
import type { GuestSession, GuestSessionOptions } from './guest-session.ts'
import { createFrameDecoder, encodeFrame, violation, type Frame, type ToHostType } from './protocol.ts'
import { createQueuedFiles, createRequests } from './requests.ts'
import { createSideRequests } from './side-requests.ts'
import { createTunnel, PROXY_PORT } from './tunnel.ts'

/** Speaks frames v1 with an agent. Owns the streams: nothing else may read or write them. */
export function createGuestSession(options: GuestSessionOptions): GuestSession {
  const { readable, writable, proxyPort = PROXY_PORT } = options
  const started = Promise.withResolvers<GuestReady>()
  let over: CofferdamError | null = null
  let isReady = options.resumed !== undefined
  let running: GuestRun | null = null
  let interpreterAlive = false
  /** Runs and requests are serialized, because the agent does one thing at a time. */
  let turn: Promise<unknown> = Promise.resolve()
  const send = createFrameWriter(writable, () => over)
  const queued = createQueuedFiles()
  const requests = createRequests(send)
  const sideRequests = createSideRequests(send, (frame) => writable.write(frame))
  const tunnel = createTunnel(writable)

  started.promise.catch(() => {})
  if (options.resumed !== undefined) started.resolve(options.resumed)

  function close(reason = new CofferdamError('sandbox_lost')): void {
    if (over !== null) return
    over = reason
    started.reject(reason)
    running?.fail(reason)
    requests.abandon(reason)
    sideRequests.abandon(reason)
    endRun()
    queued.take()
    readable.destroy()
    writable.destroy()
    options.onClosed?.(reason)
  }

  function endRun(): void {
    running = null
    tunnel.end()
  }

  async function pump(): Promise<void> {
    const decoder = createFrameDecoder()
    for await (const chunk of readable) {
      const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk as Uint8Array)
      for (const frame of decoder.push(bytes)) {
        if (over !== null) return
        const pending = isReady ? onFrame(frame) : onFirst(frame)
        if (pending !== undefined) await pending
      }
    }
  }

  function onFirst({ type, payload }: Frame): void {
    if (type !== 'R') throw violation(`frame ${type} before R`)
    isReady = true
    const ready = parseReady(payload)
    if ('error' in ready)
      throw new CofferdamError('sandbox_open_failed', 'the interpreter in the sandbox did not start', {
        details: { reason: ready.error, said: ready.message },
      })
    started.resolve(ready)
  }

  function onFrame({ type, payload }: Frame): void | Promise<void> {
    switch (type) {
      case 'O':
        return runOf(type).output('stdout', payload)
      case 'E':
        return runOf(type).output('stderr', payload)
      case 'T':
        return runOf(type).capReached(payload)
      case 'V':
        return runOf(type).value(payload)
      case 'U':
        return runOf(type).report(payload)
      case 'X':
        interpreterAlive = runOf(type).end(payload)
        return endRun()
      case 'F':
        return requests.take(payload)
      case 'Z':
        return onAnswer(parseAnswer(payload))
      case 'A':
        return sideRequests.pong(payload)
      case 'B':
        return sideRequests.copied(payload)
      case 'N':
      case 'D':
      case 'W':
      case 'Q':
        runOf(type)
        return tunnel.take(type, payload) ? drained(writable) : undefined
      case 'R':
        throw violation('a second frame R')
    }
  }

  function runOf(type: ToHostType): GuestRun {
    if (running === null) throw violation(`frame ${type} without a run`)
    return running
  }

  function onAnswer(answer: Answer): void {
    // The agent answers in order. During a run, an answer belongs to the run, even if the run's caller
    // stopped waiting.
    if (requests.isWaiting && running === null) return requests.answer(answer)
    // The agent sends Z instead of X if it refused the job's files or its port. The program then never began.
    if (running === null || !(answer instanceof CofferdamError)) throw violation('frame Z without a request')
    running.fail(answer)
    endRun()
  }

  function throwIfOver(): void {
    if (over !== null) throw over
  }

  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = turn.then(work)
    turn = mine.catch(() => {})
    return mine
  }

  /** A request about the sandbox's files, which first sends the files that were queued before it. */
  const aboutFiles = <T>(request: () => Promise<T>): Promise<T> =>
    inTurn(async () => {
      const files = queued.take()
      if (files.length > 0) await requests.put(files)
      return await request()
    })

  writable.on('error', () => close())
  readable.on('close', () => {
    // After a regular end the pump still handles the earlier chunks and then closes the session.
    if (!readable.readableEnded) close()
  })
  pump().then(
    () => close(),
    (error: unknown) => close(asLoss(error)),
  )

  return {
    get closed() {
      return over !== null
    },
    get atRest() {
      return over === null && isReady && running === null
    },
    close,
    ready: (signal) => (signal === undefined ? started.promise : unlessAborted(started.promise, signal)),
    release(options = []) {
      if (over === null) writable.write(encodeFrame('G', Buffer.from(options.join('\0'))))
    },
    async write(files) {
      throwIfOver()
      queued.add(files)
    },
    interpreterAlive: () => interpreterAlive && over === null,
    run: (program, io, env, { keepInterpreter = false, keepProcesses = false } = {}) =>
      inTurn(async () => {
        io.signal.throwIfAborted()
        const mine = await prepareRun(program, {
          io,
          env,
          keepInterpreter,
          keepProcesses,
          proxyPort,
          takeFiles: () => queued.take(),
          started: started.promise,
        })
        throwIfOver()
        running = mine
        if (io.onConnection !== undefined) tunnel.serve(io.onConnection.bind(io))
        try {
          await unlessAborted(send(mine.frames), io.signal)
          io.onHandedOver?.()
          return await unlessAborted(mine.exit, io.signal)
        } finally {
          if (running === mine) tunnel.discard()
        }
      }),
    interrupt(graceMs) {
      if (over !== null) return
      const payload = Buffer.alloc(4)
      payload.writeUInt32LE(Math.max(0, Math.min(graceMs, 0xffffffff)))
      writable.write(encodeFrame('S', payload))
    },
    clean(keep, signal) {
      queued.take()
      return inTurn(async () => {
        signal?.throwIfAborted()
        if (keep === 'none' || keep === 'files') interpreterAlive = false
        const cleaned = requests.clean(keep).catch((error: unknown) => {
          // An agent that could not prove its cell clean counts as lost, whatever the reason.
          const lost =
            error instanceof CofferdamError && error.code === 'protocol_violation'
              ? error
              : new CofferdamError('sandbox_lost', undefined, { cause: error })
          close(lost)
          throw lost
        })
        return signal === undefined ? await cleaned : await unlessAborted(cleaned, signal)
      })
    },
    read: (path, maxBytes) => aboutFiles(() => requests.read(path, maxBytes)),
    list: (globs, maxEntries) => aboutFiles(() => requests.list(globs, maxEntries)),
    async links(globs, maxEntries) {
      const { features } = await started.promise
      return features.includes('links') ? await aboutFiles(() => requests.links(globs, maxEntries)) : []
    },
    remove: (path) => aboutFiles(() => requests.remove(path)),
    async snapshot(request) {
      const { features } = await started.promise
      throwIfOver()
      if (!features.includes('backups'))
        throw new CofferdamError('capability_missing', 'The agent in the sandbox is too old to copy files.')
      return await sideRequests.snapshot(request)
    },
    async usage() {
      throwIfOver()
      return await sideRequests.usage()
    },
  }
}

const asLoss = (error: unknown): CofferdamError =>
  error instanceof CofferdamError ? error : new CofferdamError('sandbox_lost', undefined, { cause: error })
