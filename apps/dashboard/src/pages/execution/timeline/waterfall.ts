/** Makes the rows of the timeline out of spans, or out of a few figures where no spans are kept. */
import type { ExecutionState, ExecutionTrace } from '@cofferdam/client'

export type Span = ExecutionTrace['spans'][number]

export interface Tick {
  name: string
  atMs: number
}

export interface Bar {
  id: string
  name: string
  /** The service that recorded the span. Empty for a bar that the page adds itself. */
  service: string
  depth: number
  startMs: number
  endMs: number
  tone: 'wait' | 'run' | 'bad'
  /** Whether the execution would have been shorter without this step. */
  isCritical: boolean
  ticks: readonly Tick[]
  facts: Readonly<Record<string, unknown>>
}

export interface Waterfall {
  startMs: number
  endMs: number
  bars: readonly Bar[]
  /** Whether there were no spans, so that the bars come from a few figures of the execution. */
  isCoarse: boolean
}

const endOf = (span: Span): number => span.start_ms + span.duration_ms

/** How far below the roots each span is. A span whose parent is missing counts as a root. */
function depthsOf(spans: readonly Span[]): Map<string, number> {
  const depths = new Map<string, number>()
  // The API sends each span before its children.
  for (const { span_id: id, parent_span_id: parent } of spans)
    depths.set(id, parent === null ? 0 : (depths.get(parent) ?? -1) + 1)
  return depths
}

/**
 * The critical path: walks back from the end of a span to the child that ended last, then to the child that
 * ended before that one began.
 */
function criticalSpans(spans: readonly Span[], root: Span): Set<string> {
  const critical = new Set<string>()
  const children = Map.groupBy(spans, (span) => span.parent_span_id)
  const walk = (span: Span): void => {
    if (critical.has(span.span_id)) return
    critical.add(span.span_id)
    let until = endOf(span)
    const own = children.get(span.span_id) ?? []
    for (const child of own.toSorted((one, other) => endOf(other) - endOf(one))) {
      // Allows a difference of 1 ms, because the clocks of two processes differ a little.
      if (endOf(child) > until + 1) continue
      walk(child)
      until = child.start_ms
    }
  }
  walk(root)
  return critical
}

/**
 * The span of a worker’s attempt: everything that was done for the execution is below it. Only workers have
 * such spans. The service name cannot tell them apart, because in `cofferdam up` the API has the same one.
 */
const isAttempt = ({ kind }: Span): boolean => kind === 'consumer'

/** The spans of all attempts and what is below them. */
function spansOfAttempts(spans: readonly Span[]): Span[] {
  const ids = new Set<string | null>()
  // The API sends each span before its children.
  return spans.filter((span) => {
    const isOfAttempt = isAttempt(span) || ids.has(span.parent_span_id)
    if (isOfAttempt) ids.add(span.span_id)
    return isOfAttempt
  })
}

function spanWaterfall(state: ExecutionState, spans: readonly Span[], attempt: Span): Waterfall {
  const depths = depthsOf(spans)
  const critical = criticalSpans(spans, attempt)
  const enqueuedMs = Date.parse(state.enqueued_at)
  const ofWorkers = spansOfAttempts(spans)
  const startMs = Math.min(enqueuedMs, ...ofWorkers.map((span) => span.start_ms))
  const endMs = Math.max(...ofWorkers.map(endOf))
  const queue: Bar = {
    id: 'queue',
    name: 'queue',
    service: '',
    depth: 0,
    startMs: enqueuedMs,
    endMs: Math.max(enqueuedMs, attempt.start_ms),
    tone: 'wait',
    isCritical: true,
    ticks: [],
    facts: {},
  }
  const bars = spans.map((span): Bar => ({
    id: span.span_id,
    name: span.name,
    service: span.service,
    depth: depths.get(span.span_id) ?? 0,
    startMs: span.start_ms,
    endMs: endOf(span),
    tone: span.status === 'error' ? 'bad' : 'run',
    isCritical: critical.has(span.span_id),
    ticks: span.events.map(({ name, at_ms: atMs }) => ({ name, atMs })),
    facts: {
      ...(span.status_message === null ? {} : { status: span.status_message }),
      ...span.attributes,
    },
  }))
  return { startMs, endMs, bars: [queue, ...bars], isCoarse: false }
}

/** What is known without spans: the wait, the opening of the sandbox, the rest. */
function coarseWaterfall(state: ExecutionState, startedInMs: number | null, nowMs: number): Waterfall {
  const enqueuedMs = Date.parse(state.enqueued_at)
  const { result } = state
  const takenMs =
    result === null
      ? state.started_at === null
        ? nowMs
        : Date.parse(state.started_at)
      : enqueuedMs + result.queue_ms
  const endMs = result === null ? Math.max(nowMs, takenMs) : takenMs + result.duration_ms
  const openedMs = takenMs + Math.min(startedInMs ?? 0, endMs - takenMs)
  const bar = (name: string, tone: Bar['tone'], fromMs: number, toMs: number): Bar[] =>
    toMs <= fromMs
      ? []
      : [
          {
            id: name,
            name,
            service: '',
            depth: 0,
            startMs: fromMs,
            endMs: toMs,
            tone,
            isCritical: true,
            ticks: [],
            facts: {},
          },
        ]
  return {
    startMs: enqueuedMs,
    endMs,
    bars: [
      ...bar('queue', 'wait', enqueuedMs, takenMs),
      ...bar('sandbox', 'wait', takenMs, openedMs),
      ...bar('run', 'run', openedMs, endMs),
    ],
    isCoarse: true,
  }
}

/** The timeline. `startedInMs` is how long the sandbox took to open, null if nobody knows. */
export function waterfallOf(
  state: ExecutionState,
  spans: readonly Span[],
  startedInMs: number | null,
  nowMs: number,
): Waterfall {
  const attempt = spans.findLast(isAttempt)
  return attempt === undefined
    ? coarseWaterfall(state, startedInMs, nowMs)
    : spanWaterfall(state, spans, attempt)
}
