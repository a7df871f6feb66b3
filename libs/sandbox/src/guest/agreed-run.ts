/** One run as host and agent agreed on it: the frames that begin it, what the agent may say of it, and how it ended. All of that may be forged. */
import {
  CofferdamError,
  unlessAborted,
  type Exit,
  type Program,
  type ProgramFile,
  type RunIo,
} from '@cofferdam/contract'
import { parseExit, parseValue, type GuestReady } from './evidence.ts'
import { encodeRun, encodeStdin } from './job.ts'
import { mentionsReports, parseReport } from './progress.ts'
import { violation } from './protocol.ts'

export interface AgreedRun {
  readonly frames: readonly Buffer[]
  readonly exit: Promise<Exit>
  /** Takes O or E; no other frame is read before what it returns has settled. Throws `protocol_violation`, as all that take do. */
  output(stream: 'stdout' | 'stderr', payload: Buffer): void | Promise<void>
  /** Takes T. */
  capReached(payload: Buffer): void
  /** Takes V. */
  value(payload: Buffer): void
  /** Takes U. */
  report(payload: Buffer): void
  /** Takes X; true when it left an interpreter for the next run. */
  end(payload: Buffer): boolean
  fail(reason: CofferdamError): void
}

export interface RunTerms {
  io: RunIo
  env: Record<string, string>
  keepInterpreter: boolean
  proxyPort: number
  /** What waits for the job; asked once, when nothing stands in the way of it. */
  takeFiles(): ProgramFile[]
  started: Promise<GuestReady>
}

/** Throws what `encodeRun` throws, and `capability_missing` for connections that the agent cannot carry. */
export async function agreeOnRun(program: Program, terms: RunTerms): Promise<AgreedRun> {
  const { io } = terms
  const can = async (feature: string): Promise<boolean> =>
    (await unlessAborted(terms.started, io.signal)).features.includes(feature)
  if (io.onConnection !== undefined && !(await can('connections')))
    throw new CofferdamError('capability_missing', 'the agent in the sandbox cannot carry connections')
  const files = terms.takeFiles()
  // Only where the word stands, so that every other program sees what a bare run would.
  const reports = io.onProgress !== undefined && mentionsReports(program, files) && (await can('reports'))
  const frames = encodeRun(program, {
    files,
    report: reports,
    env: terms.env,
    stdinBytes: io.stdin?.length ?? null,
    maxOutputBytes: io.maxOutputBytes,
    keepInterpreter: terms.keepInterpreter,
    proxyPort: io.onConnection === undefined ? null : terms.proxyPort,
  })
  return { frames: [...frames, ...encodeStdin(io.stdin)], ...hear(io, reports) }
}

function hear(io: RunIo, reports: boolean): Omit<AgreedRun, 'frames'> {
  const settled = Promise.withResolvers<Exit>()
  settled.promise.catch(() => {})
  const left = { ...io.maxOutputBytes }
  const capped = new Set<number>()
  let hasValue = false
  let valueJson: string | undefined
  return {
    exit: settled.promise,
    output(stream, payload) {
      if (payload.length === 0 || payload.length > left[stream])
        throw violation(`output beyond the agreed bytes of ${stream}`)
      left[stream] -= payload.length
      if (!io.signal.aborted) return io.onOutput(stream, payload)
    },
    capReached(payload) {
      const stream = payload[0] ?? 0
      if (payload.length !== 9 || capped.has(stream) || capped.size === 2)
        throw violation('frame T has another shape')
      capped.add(stream)
    },
    value(payload) {
      if (hasValue) throw violation('a second frame V')
      hasValue = true
      valueJson = parseValue(payload)
    },
    report(payload) {
      if (!reports) throw violation('frame U of a run that reports nothing')
      const report = parseReport(payload)
      if (report !== null && !io.signal.aborted) io.onProgress?.(report)
    },
    end(payload) {
      const { exit, alive } = parseExit(payload, valueJson)
      settled.resolve(exit)
      return alive
    },
    fail: (reason) => settled.reject(reason),
  }
}
