/**
 * Everything that a program writes and that is shown about it: both streams, its value, and the text of its
 * failure. All bytes of a program pass through here, so nothing is shown unredacted or unbounded.
 */
import {
  BOUNDS,
  type BlobKey,
  type BlobStore,
  type ExecutionRequest,
  type Exit,
  type OutputView,
  type TenantPolicy,
} from '@cofferdam/contract'
import type { Clock } from './clock.ts'
import { findErrorLine, type ErrorLine } from './error-line.ts'
import { createOutputStream, type OutputStream } from './output-stream.ts'
import type { RedactionRules } from './redaction-rules.ts'
import { redactText } from './redactor.ts'
import { createSpill } from './spill.ts'

export type StreamName = 'stdout' | 'stderr'

export interface Output {
  /** How many bytes the backend is asked for. */
  readonly maxOutputBytes: Record<StreamName, number>
  /** Aborts when a stream exceeds its limit and the request says `kill`. */
  readonly limitPassed: AbortSignal
  /** Takes bytes from the backend. The promise is backpressure, and never rejects. */
  push(stream: StreamName, chunk: Uint8Array): Promise<void>
  close(): void
  /** What the visible part of stderr says went wrong. */
  errorLine(): ErrorLine
  /** The redacted JSON of the value, parsed. Undefined when there is none or it cannot be shown. */
  value(json: string | undefined): unknown
  redact(text: string): string
  finish(written: Exit['outputBytes'] | null): Promise<{ stdout: OutputView; stderr: OutputView }>
  /** Drops everything, because another worker owns the attempt now. */
  abandon(): Promise<void>
  readonly redactionCount: number
}

export interface OutputOptions {
  request: ExecutionRequest
  executionId: string
  attempt: number
  /** Decides whether the full copies are stored encrypted. */
  tenant: Pick<TenantPolicy, 'encrypt_outputs'>
  rules: RedactionRules
  blobs: BlobStore
  clock: Clock
  /** If it returns a promise, the program is held back until that resolves. */
  onText: (stream: StreamName, text: string) => void | Promise<void>
  onNotice: (message: string) => void
  onError: (error: unknown, message: string) => void
}

export function createOutput(options: OutputOptions): Output {
  const { request, rules } = options
  const { limits } = request
  const kills = limits.on_output_limit === 'kill'
  const limitOf = { stdout: limits.stdout_bytes, stderr: limits.stderr_bytes }
  const bound = (stream: StreamName) =>
    kills ? limitOf[stream] + 1 : Math.max(limitOf[stream], BOUNDS.fullOutputBytes)
  const maxOutputBytes = { stdout: bound('stdout'), stderr: bound('stderr') }
  const limitPassed = new AbortController()
  let otherHits = 0

  const streamOf = (stream: StreamName): OutputStream =>
    createOutputStream({
      rules,
      limit: limitOf[stream],
      // stderr keeps its end, where an exception is. stdout keeps its start.
      keep: stream === 'stderr' ? 'tail' : 'head',
      maxRawBytes: maxOutputBytes[stream],
      onText: (text) => options.onText(stream, text),
      beginSpill: () => createSpill(options.blobs, keyOf(options, stream), options.clock, lost(stream)),
    })
  const lost = (stream: StreamName) => (error: unknown) => {
    options.onError(error, `the full ${stream} could not be stored`)
    options.onNotice(`The full ${stream} could not be stored; only its visible part is kept.`)
  }
  const streams = { stdout: streamOf('stdout'), stderr: streamOf('stderr') }

  const redact = (text: string) => {
    const redacted = redactText(rules, text)
    otherHits += redacted.hits
    return redacted.text
  }

  return {
    maxOutputBytes,
    limitPassed: limitPassed.signal,
    push(stream, chunk) {
      const before = streams[stream].rawBytes
      const written = streams[stream].push(chunk)
      const { rawBytes } = streams[stream]
      if (kills && rawBytes > limitOf[stream]) limitPassed.abort()
      const most = maxOutputBytes[stream]
      // Without this notice, a reader of the live output would wait for more.
      if (!kills && before < most && rawBytes >= most) options.onNotice(noMoreOf(stream, most))
      return written
    },
    close() {
      streams.stdout.close()
      streams.stderr.close()
    },
    errorLine: () => findErrorLine(streams.stderr.shown()),
    value(json) {
      if (json === undefined) return undefined
      if (Buffer.byteLength(json) > BOUNDS.valueBytes) {
        options.onNotice(`The value is larger than ${BOUNDS.valueBytes} bytes and was left out.`)
        return undefined
      }
      try {
        return JSON.parse(redact(json)) as unknown
      } catch {
        options.onNotice('The value could not be shown and was left out.')
        return undefined
      }
    },
    redact,
    async finish(written) {
      const [stdout, stderr] = await Promise.all([
        streams.stdout.finish(byteCount(written?.stdout)),
        streams.stderr.finish(byteCount(written?.stderr)),
      ])
      return { stdout, stderr }
    },
    async abandon() {
      await Promise.all([streams.stdout.abandon(), streams.stderr.abandon()])
    },
    get redactionCount() {
      return streams.stdout.hits + streams.stderr.hits + otherHits
    },
  }
}

const noMoreOf = (stream: StreamName, bytes: number): string =>
  `${bytes / 2 ** 20} MiB of ${stream} were read. What follows is counted and not kept.`

function keyOf({ request, executionId, attempt, tenant }: OutputOptions, name: string): BlobKey {
  return { tenantId: request.tenant_id, executionId, attempt, name, encrypt: tenant.encrypt_outputs }
}

/** A count that a backend reports. 0 when it is impossible. */
function byteCount(reported: number | undefined): number {
  return reported !== undefined && Number.isSafeInteger(reported) && reported > 0 ? reported : 0
}
