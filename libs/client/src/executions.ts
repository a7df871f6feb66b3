/** Lists executions, reads their full output, artifacts and spans, runs them again and compares them. */
import type {
  Artifact,
  Comparison,
  ExecutionState,
  ExecutionTrace,
  ExecutionWhy,
  Operations,
  Rerun,
  RerunRequest,
} from './wire.ts'
import { filePath, part, type Api, type CallOptions } from './api.ts'
import type { List } from './pages.ts'

type ListOperation = Operations['listExecutions']

/** A part of a file or of an output, in bytes. */
export interface RangeOptions extends CallOptions {
  /** The first and the last byte, from 0. Without `last`, everything from `first` on. */
  range?: { first: number; last?: number }
}

export interface RerunOptions extends CallOptions {
  /** Default: runs exactly what ran the first time. */
  edit?: RerunRequest['edit']
  /** Default: a new one for this call, so that it is repeated safely when its answer is lost. */
  idempotencyKey?: string
  /** How long the server waits for the result, in milliseconds, at most 60,000. Default 0: not at all. */
  waitMs?: number
}

export interface Executions {
  /** Live executions, then ended ones, each newest first. Texts of results are cut at 16 KiB. */
  list(query?: ListOperation['query'], options?: CallOptions): List<ExecutionState, ListOperation['result']>
  /** The full redacted output of an ended execution. Throws `conflict` while it runs. */
  output(id: string, stream: 'stdout' | 'stderr', options?: RangeOptions): Promise<string>
  /** The artifacts of an ended execution. */
  artifacts(id: string, options?: CallOptions): Promise<Artifact[]>
  /** The bytes of one artifact. */
  artifact(id: string, path: string, options?: RangeOptions): Promise<Uint8Array>
  /** The spans of an execution, each before its children. Kept for an hour. */
  trace(id: string, options?: CallOptions): Promise<ExecutionTrace>
  /** Why the execution waits or was refused, why it ran where it did, and why it ended so. */
  why(id: string, options?: CallOptions): Promise<ExecutionWhy>
  /**
   * Runs an ended execution again. Throws `not_found` when its program was not kept (details: `kept_by`,
   * values of the policy's `keep_program` that would have), and what an enqueue throws.
   */
  rerun(id: string, options?: RerunOptions): Promise<Rerun>
  /** Two ended executions side by side. `other` defaults to the one that `id` runs again. */
  compare(id: string, other?: string, options?: CallOptions): Promise<Comparison>
}

/** The client waits this much longer than the API does. */
const SLACK_MS = 15_000

export function executionsOf(api: Api): Executions {
  return {
    list: (query, options) => api.list('/executions', 'executions', query, options),
    async output(id, stream, options) {
      const path = `/executions/${part(id)}/output/${stream}`
      const { bytes } = await api.bytes({ method: 'GET', path, ...ranged(options) })
      return new TextDecoder().decode(bytes)
    },
    async artifacts(id, options) {
      const path = `/executions/${part(id)}/artifacts`
      const { artifacts } = await api.json<{ artifacts: Artifact[] }>({ method: 'GET', path, ...options })
      return artifacts
    },
    async artifact(id, file, options) {
      const path = `/executions/${part(id)}/artifacts/${filePath(file)}`
      return (await api.bytes({ method: 'GET', path, ...ranged(options) })).bytes
    },
    trace: (id, options) => api.json({ method: 'GET', path: `/executions/${part(id)}/trace`, ...options }),
    why: (id, options) => api.json({ method: 'GET', path: `/executions/${part(id)}/why`, ...options }),
    rerun: (id, { edit, idempotencyKey = crypto.randomUUID(), waitMs = 0, ...options } = {}) =>
      api.json({
        method: 'POST',
        path: `/executions/${part(id)}/rerun`,
        query: { wait: waitMs > 0 ? `${waitMs}ms` : undefined },
        body: { idempotency_key: idempotencyKey, ...(edit === undefined ? {} : { edit }) },
        ...(waitMs > 0 ? { timeoutMs: waitMs + SLACK_MS } : {}),
        ...options,
      }),
    compare: (id, other, options) =>
      api.json({
        method: 'GET',
        path: `/executions/${part(id)}/compare`,
        query: { with: other },
        ...options,
      }),
  }
}

/** The options of a call, with `range` as a header. */
export function ranged({ range, ...rest }: RangeOptions = {}): CallOptions & {
  headers?: Record<string, string>
} {
  if (range === undefined) return rest
  return { ...rest, headers: { range: `bytes=${range.first}-${range.last ?? ''}` } }
}
