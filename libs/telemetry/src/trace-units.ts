/**
 * Holds back the spans of each unit until its ending is known, then sends all or none of them
 * (trace-decision.ts).
 *
 *   span starts  without a parent in this process ─► starts a unit, as its root
 *                consumer span of an attempt      ─► the same, even if its producer is in this process
 *                below a span of an open unit     ─► belongs to it, even if its parent came as a traceparent
 *   span ends    in an open unit ─► held; if it is the root ─► decided, then passed on or dropped
 *                in no open unit ─► follows the decision of its trace
 *
 * A unit takes at most SPANS_PER_UNIT spans. Further ones follow the decision of their trace. If more than
 * MAX_HELD spans are held in total, the spans of the oldest units are sent undecided. A span that never ends
 * is dropped with its unit.
 */
import { SpanKind } from '@opentelemetry/api'
import type { ReadableSpan, SpanProcessor } from '@opentelemetry/sdk-trace'
import { decideTrace, isInShare, type SamplingRules, type TraceDecision } from './trace-decision.ts'

/** An attempt has eight spans. A program adds none, because its own spans go to the collector directly. */
const SPANS_PER_UNIT = 128
/** About 12 MB: a thousand running executions with eight spans each. */
const MAX_HELD = 8192
/**
 * How many recently sent traces are remembered, so that their late spans are sent, too. Each takes 100 bytes.
 */
const MAX_REMEMBERED = 4096

export interface EndedUnit {
  root: ReadableSpan
  /** The root is the last. */
  spans: readonly ReadableSpan[]
  decision: TraceDecision
}

export interface TraceUnitsDeps {
  rules: SamplingRules
  /** Receives the spans to send. Null without a collector. */
  sink: Pick<SpanProcessor, 'onEnd' | 'forceFlush' | 'shutdown'> | null
  /** Called for every unit, sent or not. */
  onUnit?(unit: EndedUnit): void
}

interface Unit {
  rootId: string
  /** Every span that started in the unit, so that children find it even after their parent ended. */
  ids: string[]
  spans: ReadableSpan[]
}

/** Creates the span processor. It sends nothing over the network itself, but passes spans to `sink`. */
export function createTraceUnits(deps: TraceUnitsDeps): SpanProcessor {
  const { rules, sink } = deps
  /** Open units by span ID. A Map keeps the oldest unit first. */
  const unitOf = new Map<string, Unit>()
  const open = new Set<Unit>()
  const sentTraces = new Set<string>()
  let held = 0

  function begin(rootId: string): void {
    const unit: Unit = { rootId, ids: [rootId], spans: [] }
    unitOf.set(rootId, unit)
    open.add(unit)
  }

  function forget(unit: Unit): void {
    for (const id of unit.ids) unitOf.delete(id)
    open.delete(unit)
    held -= unit.spans.length
  }

  function send(spans: readonly ReadableSpan[], traceId: string): void {
    if (sink === null) return
    sentTraces.delete(traceId)
    sentTraces.add(traceId)
    const [oldest] = sentTraces
    if (sentTraces.size > MAX_REMEMBERED && oldest !== undefined) sentTraces.delete(oldest)
    for (const span of spans) sink.onEnd(span)
  }

  function close(unit: Unit, root: ReadableSpan): void {
    forget(unit)
    const decision = decideTrace(root, unit.spans, rules)
    const { traceId } = root.spanContext()
    if (decision !== 'dropped' || sentTraces.has(traceId)) send(unit.spans, traceId)
    deps.onUnit?.({ root, spans: unit.spans, decision })
  }

  /** When memory is full, sends the spans of the oldest units. Later spans of these traces are sent, too. */
  function giveWay(): void {
    for (const unit of open) {
      if (held <= MAX_HELD) return
      const first = unit.spans[0]
      if (first === undefined) continue
      held -= unit.spans.length
      send(unit.spans.splice(0), first.spanContext().traceId)
    }
  }

  return {
    onStart(span) {
      const { spanId } = span.spanContext()
      const parent = span.parentSpanContext
      if (parent === undefined || span.kind === SpanKind.CONSUMER) return begin(spanId)
      const unit = unitOf.get(parent.spanId)
      // A late child of a unit that has ended follows the decision of its trace.
      if (unit === undefined) return parent.isRemote === true ? begin(spanId) : undefined
      if (unit.ids.length >= SPANS_PER_UNIT) return
      unit.ids.push(spanId)
      unitOf.set(spanId, unit)
    },
    onEnd(span) {
      const { spanId, traceId } = span.spanContext()
      const unit = unitOf.get(spanId)
      if (unit === undefined) {
        if (sentTraces.has(traceId) || isInShare(traceId, rules.ratio)) sink?.onEnd(span)
        return
      }
      unit.spans.push(span)
      held += 1
      if (unit.rootId === spanId) close(unit, span)
      else if (held > MAX_HELD) giveWay()
    },
    async forceFlush() {
      await sink?.forceFlush()
    },
    async shutdown() {
      // A process that ends early sends the spans that it has.
      for (const unit of open) {
        const first = unit.spans[0]
        if (first !== undefined) send(unit.spans, first.spanContext().traceId)
        forget(unit)
      }
      await sink?.shutdown()
    },
  }
}
