/**
 * Holds the spans of each unit back until its ending is known, then sends all of them or none (trace-decision.ts) and
 * tells who wants to show them.
 *
 *   span starts  without a parent in this process ─► a unit begins, with it as the root
 *                a consumer: an attempt            ─► the same, also where its producer waits in this process (`up`)
 *                below a span of an open unit      ─► belongs to that unit, also if its parent came as a traceparent
 *   span ends    belongs to an open unit ─► held; is its root ─► decided, handed over, forgotten
 *                its unit is over        ─► follows its trace's decision
 *
 * Bounded: SPANS_PER_UNIT spans a unit, MAX_HELD spans in all; beyond it the oldest units' spans are sent undecided.
 * A span that never ends (a program.run without a hand-over) is forgotten with its unit.
 */
import { SpanKind } from '@opentelemetry/api'
import type { ReadableSpan, SpanProcessor } from '@opentelemetry/sdk-trace'
import { decideTrace, isInShare, type SamplingRules, type TraceDecision } from './trace-decision.ts'

/** An attempt has eight; a program cannot add any: its own spans reach the collector by themselves. */
const SPANS_PER_UNIT = 128
/** About 12 MB: a thousand running executions of eight spans. */
const MAX_HELD = 8192
/** Traces whose units were sent lately, so that what ends later in them follows. 100 bytes each. */
const MAX_REMEMBERED = 4096

/** A unit that is over. */
export interface EndedUnit {
  root: ReadableSpan
  /** The root is the last. */
  spans: readonly ReadableSpan[]
  decision: TraceDecision
}

export interface TraceUnitsDeps {
  rules: SamplingRules
  /** What is kept goes here; null when there is no collector. */
  sink: Pick<SpanProcessor, 'onEnd' | 'forceFlush' | 'shutdown'> | null
  /** Hears of every unit, kept or not. */
  onUnit?(unit: EndedUnit): void
}

interface Unit {
  rootId: string
  /** Every span that began in it, so that children find it also after their parent ended. */
  ids: string[]
  spans: ReadableSpan[]
}

/** Makes the processor. It asks nothing of the network. */
export function createTraceUnits(deps: TraceUnitsDeps): SpanProcessor {
  const { rules, sink } = deps
  /** By span id, of open units only; a Map keeps the oldest unit first. */
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

  /** Memory is full: what the oldest units have is sent, their later spans follow. */
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
      // No unit and a parent of ours: a late child of a unit that is over, which follows its trace.
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
      // A process that leaves in the middle of something sends what it knows of it.
      for (const unit of open) {
        const first = unit.spans[0]
        if (first !== undefined) send(unit.spans, first.spanContext().traceId)
        forget(unit)
      }
      await sink?.shutdown()
    },
  }
}
