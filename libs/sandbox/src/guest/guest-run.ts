/**
 * One run: the frames that begin it, and a check of everything that the agent sends about it. The program may
 * have forged all of that, so each frame must be within what was agreed before the run.
 */
import {
  CofferdamError,
  unlessAborted,
  type Exit,
  type Program,
  type ProgramFile,
  type Progress,
  type RunIo,
} from '@cofferdam/contract'
import { parseExit, parseValue, type GuestReady } from './evidence.ts'
import { encodeRun, encodeStdin } from './job.ts'
import { violation } from './protocol.ts'

/** Longest report: a fraction and 240 characters of at most four bytes. The agent has the same bound. */
const REPORT_BYTES = 1024
const WORD = 'cofferdam'

export interface GuestRun {
  readonly frames: readonly Buffer[]
  readonly exit: Promise<Exit>
  /**
   * Takes O or E; read no other frame until it resolves. All methods that take a frame throw
   * `protocol_violation`.
   */
  output(stream: 'stdout' | 'stderr', payload: Buffer): void | Promise<void>
  /** Takes T. */
  capReached(payload: Buffer): void
  /** Takes V. */
  value(payload: Buffer): void
  /** Takes U. */
  report(payload: Buffer): void
  /** Takes X. True when the run left an interpreter for the next one. */
  end(payload: Buffer): boolean
  fail(reason: CofferdamError): void
}

export interface RunTerms {
  io: RunIo
  env: Record<string, string>
  keepInterpreter: boolean
  keepProcesses: boolean
  proxyPort: number
  /** The files to send with the program. Called once, when nothing can refuse the run any more. */
  takeFiles(): ProgramFile[]
  started: Promise<GuestReady>
}

/** Throws what `encodeRun` throws, and `capability_missing` for what the agent cannot do. */
export async function prepareRun(program: Program, terms: RunTerms): Promise<GuestRun> {
  const { io } = terms
  const can = async (feature: string): Promise<boolean> =>
    (await unlessAborted(terms.started, io.signal)).features.includes(feature)
  if (io.onConnection !== undefined && !(await can('connections')))
    throw new CofferdamError('capability_missing', 'the agent in the sandbox cannot carry connections')
  if (terms.keepProcesses && !(await can('processes')))
    throw new CofferdamError('capability_missing', 'the agent in the sandbox cannot keep processes')
  const files = terms.takeFiles()
  // Reports are only for a program that contains `WORD`. Every other program sees what a bare run would.
  const reports = io.onProgress !== undefined && mentionsReports(program, files) && (await can('reports'))
  const frames = encodeRun(program, {
    files,
    report: reports,
    env: terms.env,
    stdinBytes: io.stdin?.length ?? null,
    maxOutputBytes: io.maxOutputBytes,
    keepInterpreter: terms.keepInterpreter,
    keepProcesses: terms.keepProcesses,
    proxyPort: io.onConnection === undefined ? null : terms.proxyPort,
  })
  return { frames: [...frames, ...encodeStdin(io.stdin)], ...checkFrames(io, reports) }
}

function checkFrames(io: RunIo, reports: boolean): Omit<GuestRun, 'frames'> {
  const ended = Promise.withResolvers<Exit>()
  ended.promise.catch(() => {})
  const bytesLeft = { ...io.maxOutputBytes }
  const capped = new Set<number>()
  let hasValue = false
  let valueJson: string | undefined
  return {
    exit: ended.promise,
    output(stream, payload) {
      if (payload.length === 0 || payload.length > bytesLeft[stream])
        throw violation(`output beyond the agreed bytes of ${stream}`)
      bytesLeft[stream] -= payload.length
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
      if (!reports) throw violation('frame U of a run without reports')
      const report = parseReport(payload)
      if (report !== null && !io.signal.aborted) io.onProgress?.(report)
    },
    end(payload) {
      const { exit, alive } = parseExit(payload, valueJson)
      ended.resolve(exit)
      return alive
    },
    fail: (reason) => ended.reject(reason),
  }
}

/** Whether the program, or one of its files, contains the word that it needs to report progress. */
export function mentionsReports(program: Program, files: readonly ProgramFile[]): boolean {
  const texts =
    program.type === 'script'
      ? [program.source]
      : program.type === 'command'
        ? [program.shell ?? '', ...(program.argv ?? [])]
        : []
  return (
    texts.some((text) => text.includes(WORD)) ||
    files.some(({ bytes }) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).includes(WORD))
  )
}

/** Parses U; null if invalid (a program may write it). Throws `protocol_violation` above the limit. */
export function parseReport(payload: Buffer): Progress | null {
  if (payload.length > REPORT_BYTES) throw violation(`a report of ${payload.length} bytes`)
  const text = payload.toString('utf8')
  const [, number, message = ''] = /^(\d{1,3}(?:\.\d{1,12})?|\.\d{1,12})(?: (.*))?$/s.exec(text) ?? []
  if (number === undefined) return null
  const fraction = Math.min(1, Number(number))
  // eslint-disable-next-line no-control-regex
  const plain = message.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').trim()
  return { fraction, message: plain }
}
