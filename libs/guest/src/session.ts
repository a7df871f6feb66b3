/**
 * The worker's end of the frame protocol over any byte stream: everything a Sandbox needs except open and kill.
 *
 *   starting ──R── ready ──run── running ──X── ready            files are queued by write() and sent with the next job
 *   any ──stream ends, close(), violation── closed: pending calls reject with sandbox_lost | protocol_violation
 *
 * Memory is bounded whatever the guest sends: one chunk of the stream is in hand at a time, nothing is read while
 * `onOutput` is pending, and every frame must be one that somebody waits for, within the bytes that were agreed.
 */
import { BOUNDS, CofferdamError } from '@cofferdam/contract'
import type { Exit, ProgramFile, RunIo, Usage } from '@cofferdam/contract'
import { backupFrame, createBackup, type Backup } from './backup.ts'
import { cleanRequest, collectRequest, createCollector, refusal } from './collect.ts'
import type { Collection, Collector } from './collect.ts'
import type { GuestSession, GuestSessionOptions } from './guest-session.ts'
import { parseExit, parseReady, parseUsage, parseValue, type GuestReady } from './evidence.ts'
import { encodePut, encodeRun, encodeStdin } from './job.ts'
import { mentionsReports, parseReport } from './progress.ts'
import { createTunnel, PROXY_PORT } from './tunnel.ts'
import { drained, orAborted } from './wait-for.ts'
import { createFrameDecoder, encodeFrame, violation, type Frame } from './protocol.ts'

interface Running {
  io: RunIo
  settled: PromiseWithResolvers<Exit>
  left: { stdout: number; stderr: number }
  told: Set<number>
  valueJson: string | undefined
  hasValue: boolean
  /** The program was offered a way to report. */
  reports: boolean
}

/** Speaks frames v1 with an agent. Takes the streams over: nobody else may read or write them. */
export function createGuestSession(options: GuestSessionOptions): GuestSession {
  const { readable, writable } = options
  const proxyPort = options.proxyPort ?? PROXY_PORT
  const tunnel = createTunnel(writable)
  const started = Promise.withResolvers<GuestReady>()
  let over: CofferdamError | null = null
  let isReady = false
  let running: Running | null = null
  let collector: Collector | null = null
  let ping: PromiseWithResolvers<Usage> | null = null
  let backup: Backup | null = null
  let queued: ProgramFile[] = []
  let queuedBytes = 0
  let interpreterAlive = false
  /** Frames of one request never mix with those of the next, also when nobody waits for the first any more. */
  let sent: Promise<unknown> = Promise.resolve()
  /** Runs and collections take turns: the agent does one thing at a time. */
  let turn: Promise<unknown> = Promise.resolve()

  started.promise.catch(() => {})

  function close(reason = new CofferdamError('sandbox_lost')): void {
    if (over !== null) return
    over = reason
    started.reject(reason)
    running?.settled.reject(reason)
    collector?.abandon(reason)
    ping?.reject(reason)
    backup?.abandon(reason)
    tunnel.end()
    running = collector = ping = backup = null
    queued = []
    readable.destroy()
    writable.destroy()
    options.onClosed?.(reason)
  }

  async function pump(): Promise<void> {
    const decoder = createFrameDecoder()
    for await (const chunk of readable) {
      const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk as Uint8Array)
      for (const frame of decoder.push(bytes)) {
        if (over !== null) return
        const pending = onFrame(frame)
        if (pending !== undefined) await pending
      }
    }
  }

  function onFrame({ type, payload }: Frame): void | Promise<void> {
    if (!isReady) {
      if (type !== 'R') throw violation(`frame ${type} before R`)
      isReady = true
      const said = parseReady(payload)
      if ('error' in said)
        throw new CofferdamError('sandbox_open_failed', 'the interpreter in the sandbox did not start', {
          details: { reason: said.error, said: said.message },
        })
      started.resolve(said)
      return
    }
    switch (type) {
      case 'O':
        return onOutput('stdout', payload)
      case 'E':
        return onOutput('stderr', payload)
      case 'T':
      case 'V':
        return onNote(type, payload)
      case 'B':
        if (backup === null) throw violation('frame B without a request')
        if (backup.take(payload)) backup = null
        return
      case 'U':
        return onReport(payload)
      case 'X': {
        if (running === null) throw violation('frame X without a run')
        const ended = running
        const { exit, alive } = parseExit(payload, ended.valueJson)
        interpreterAlive = alive
        running = null
        tunnel.end()
        ended.settled.resolve(exit)
        return
      }
      case 'F':
        if (collector === null) throw violation('frame F without a request')
        collector.take(payload)
        return
      case 'Z':
        return onAnswer(payload)
      case 'A':
        if (ping === null) throw violation('frame A without a ping')
        ping.resolve(parseUsage(payload))
        ping = null
        return
      case 'N':
      case 'D':
      case 'W':
      case 'Q':
        if (running === null) throw violation(`frame ${type} without a run`)
        return tunnel.take(type, payload) ? drained(writable) : undefined
      case 'R':
        throw violation('a second frame R')
    }
  }

  function onOutput(stream: 'stdout' | 'stderr', payload: Buffer): void | Promise<void> {
    if (running === null) throw violation('output without a run')
    if (payload.length === 0 || payload.length > running.left[stream])
      throw violation(`output beyond the agreed bytes of ${stream}`)
    running.left[stream] -= payload.length
    if (running.io.signal.aborted) return
    return running.io.onOutput(stream, payload)
  }

  function onNote(type: 'T' | 'V', payload: Buffer): void {
    if (running === null) throw violation(`frame ${type} without a run`)
    if (type === 'T') {
      const stream = payload[0] ?? 0
      if (payload.length !== 9 || running.told.has(stream) || running.told.size === 2)
        throw violation('frame T has another shape')
      running.told.add(stream)
      return
    }
    if (running.hasValue) throw violation('a second frame V')
    running.hasValue = true
    running.valueJson = parseValue(payload)
  }

  function onReport(payload: Buffer): void {
    if (running === null || !running.reports) throw violation('frame U without a run that reports')
    const report = parseReport(payload)
    if (report !== null && !running.io.signal.aborted) running.io.onProgress?.(report)
  }

  function onAnswer(payload: Buffer): void {
    const failed = refusal(payload)
    // The agent answers in order: while a run has no end yet, also one that nobody waits for any more, this is its answer.
    if (collector !== null && running === null) {
      // Throws for an answer that is wrong: the collector must then still be there to be told.
      collector.finish(failed)
      collector = null
      return
    }
    // Instead of X: the files of the job were refused, so the program never began.
    if (running === null || failed === null) throw violation('frame Z without a request')
    const ended = running
    running = null
    tunnel.end()
    ended.settled.reject(failed)
  }

  function send(frames: readonly Buffer[]): Promise<void> {
    const mine = sent.then(() => put(frames))
    sent = mine.catch(() => {})
    return mine
  }

  async function put(frames: readonly Buffer[]): Promise<void> {
    if (over !== null) throw over
    const total = frames.reduce((sum, frame) => sum + frame.length, 0)
    // One write where it is small (the bound path); else frame by frame with backpressure.
    const parts = total <= 256 * 1024 ? [Buffer.concat(frames, total)] : frames
    for (const part of parts) {
      if (over !== null) throw over
      if (!writable.write(part)) await drained(writable)
    }
  }

  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = turn.then(work)
    turn = mine.catch(() => {})
    return mine
  }

  function takeQueued(): ProgramFile[] {
    const files = queued
    queued = []
    queuedBytes = 0
    return files
  }

  async function ask<T>(next: Collection<T>, frames: readonly Buffer[]): Promise<T> {
    if (over !== null) throw over
    collector = next
    await send(frames)
    return await next.result
  }

  const collect = <T>(make: () => { collector: Collection<T>; frame: Buffer }): Promise<T> =>
    inTurn(async () => {
      const files = takeQueued()
      if (files.length > 0)
        await ask(
          createCollector(0, () => undefined),
          encodePut(files),
        )
      const { collector: next, frame } = make()
      return ask(next, [frame])
    })

  writable.on('error', () => close())
  readable.on('close', () => {
    // After a regular end the pump still works on what came before it and closes by itself.
    if (!readable.readableEnded) close()
  })
  pump().then(
    () => close(),
    (error: unknown) =>
      close(
        error instanceof CofferdamError
          ? error
          : new CofferdamError('sandbox_lost', undefined, { cause: error }),
      ),
  )

  return {
    get closed() {
      return over !== null
    },
    close,
    ready(signal) {
      if (signal === undefined) return started.promise
      return orAborted(started.promise, signal)
    },
    release(options = []) {
      if (over === null) writable.write(encodeFrame('G', Buffer.from(options.join('\0'))))
    },
    async write(files) {
      if (over !== null) throw over
      for (const file of files) queuedBytes += file.bytes.length
      queued.push(...files)
      if (queuedBytes > BOUNDS.filesTotalBytes || queued.length > BOUNDS.fileCount) {
        takeQueued()
        throw new CofferdamError('payload_too_large', 'the files exceed the bounds of one execution')
      }
    },
    interpreterAlive: () => interpreterAlive && over === null,
    run(program, io, env, runOptions = {}) {
      return inTurn(async () => {
        io.signal.throwIfAborted()
        if (io.onConnection !== undefined) {
          const { features } = await orAborted(started.promise, io.signal)
          if (!features.includes('connections'))
            throw new CofferdamError(
              'capability_missing',
              'the agent in the sandbox cannot carry connections',
            )
        }
        const files = takeQueued()
        // Only where the word stands, so that every other program sees what a bare run would.
        const reports =
          io.onProgress !== undefined &&
          mentionsReports(program, files) &&
          (await orAborted(started.promise, io.signal)).features.includes('reports')
        const frames = encodeRun(program, {
          files,
          report: reports,
          env,
          stdinBytes: io.stdin?.length ?? null,
          maxOutputBytes: io.maxOutputBytes,
          keepInterpreter: runOptions.keepInterpreter === true,
          proxyPort: io.onConnection === undefined ? null : proxyPort,
        })
        const mine: Running = {
          io,
          settled: Promise.withResolvers<Exit>(),
          left: { ...io.maxOutputBytes },
          told: new Set(),
          valueJson: undefined,
          hasValue: false,
          reports,
        }
        mine.settled.promise.catch(() => {})
        if (over !== null) throw over
        running = mine
        if (io.onConnection !== undefined) tunnel.serve(io.onConnection.bind(io))
        try {
          await orAborted(send([...frames, ...encodeStdin(io.stdin)]), io.signal)
          return await orAborted(mine.settled.promise, io.signal)
        } finally {
          if (running === mine) tunnel.discard()
        }
      })
    },
    interrupt(graceMs = 2000) {
      if (over !== null) return
      const payload = Buffer.alloc(4)
      payload.writeUInt32LE(Math.max(0, Math.min(graceMs, 0xffffffff)))
      writable.write(encodeFrame('S', payload))
    },
    clean(keep, signal) {
      takeQueued()
      return inTurn(async () => {
        signal?.throwIfAborted()
        if (keep !== 'interpreter') interpreterAlive = false
        const cleaned = ask(
          createCollector(0, () => undefined),
          [cleanRequest(keep)],
        ).catch((error: unknown) => {
          // An agent that could not prove it is as good as lost, whatever it said.
          const lost =
            error instanceof CofferdamError && error.code === 'protocol_violation'
              ? error
              : new CofferdamError('sandbox_lost', undefined, { cause: error })
          close(lost)
          throw lost
        })
        return signal === undefined ? await cleaned : await orAborted(cleaned, signal)
      })
    },
    read: (path, maxBytes) => collect(() => collectRequest.read(path, maxBytes)),
    list: (globs, maxEntries) => collect(() => collectRequest.list(globs, maxEntries)),
    remove: (path) => collect(() => collectRequest.remove(path)),
    async snapshot(request) {
      const { features } = await started.promise
      if (over !== null) throw over
      if (!features.includes('backups'))
        throw new CofferdamError('capability_missing', 'the agent in the sandbox makes no copies')
      if (backup !== null) throw new CofferdamError('conflict', 'A copy is under way already.')
      const mine = createBackup(request)
      backup = mine
      await send([backupFrame(request)])
      return await mine.files
    },
    async usage() {
      if (over !== null) throw over
      if (ping === null) {
        ping = Promise.withResolvers<Usage>()
        ping.promise.catch(() => {})
        writable.write(encodeFrame('P'))
      }
      return await ping.promise
    },
  }
}
