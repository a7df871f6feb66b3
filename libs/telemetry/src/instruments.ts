/**
 * The fleet's instruments, as metric-catalog.ts describes them. Labels come from closed sets (lane, ending,
 * backend, dimension), never from tenants, agents or executions, so the number of series does not grow with
 * use.
 */
import { MICRO, type AttemptRecord, type CapsUse } from '@cofferdam/contract'
import type {
  Attributes,
  BatchObservableResult,
  Counter,
  Histogram,
  Meter,
  Observable,
  ObservableGauge,
} from '@opentelemetry/api'
import { METRIC_FACTS } from './metric-catalog.ts'
import type { Exemplars } from './exemplars.ts'
import { ATTRIBUTES, METRICS, type MetricName } from './names.ts'
import type {
  DispatcherPoolReading,
  FleetReading,
  MemoryReading,
  SlotEvent,
  WorkerReading,
} from './readings.ts'
import type { TraceDecision } from './trace-decision.ts'

/** A value, or a function that reads it when metrics are collected. */
type Read<T> = () => T | Promise<T>

export interface Instruments {
  /** Records one ended attempt: its ending, wait and run time, caps, refusal and redactions. */
  ended(record: AttemptRecord): void
  /**
   * Observes queue and workers at each collection. If `read` throws, the metrics have a gap. Returns a
   * function that stops it.
   */
  observeFleet(read: Read<FleetReading>): () => void
  observeWorker(read: Read<WorkerReading>): () => void
  observeMemory(read: Read<MemoryReading>): () => void
  observeDispatcher(read: Read<readonly DispatcherPoolReading[]>): () => void
  /** Counts slots that were taken, warmed, dropped, or failed to warm. */
  slotEvent(event: SlotEvent): void
  /** Records one written or failed batch of audit rows. */
  auditBatch(batch: { rows: number; ms: number; ok: boolean }): void
  /** Counts one decision: whether the spans of an execution or request are sent. */
  traceDecided(decision: TraceDecision): void
}

/**
 * Bounds in seconds, from less than a warm start (10 ms) to the longest run (24 h). Up to 60 s, each is 2 to
 * 3 times the previous one. Above that, it is 4 to 12 times.
 */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86_400]
/** Shares of a cap, finer near 1. */
const SHARES = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1]
/** Rows of a batch, of which there are at most 100. */
const ROWS = [1, 2, 5, 10, 20, 50, 100]

/** Creates the instruments, once per process. With `exemplars`, histograms link to traces. */
export function createInstruments(meter: Meter, exemplars: Exemplars | null = null): Instruments {
  const wait = histogram(meter, METRICS.wait, SECONDS)
  const runTime = histogram(meter, METRICS.runTime, SECONDS)
  const warmUp = histogram(meter, METRICS.warmUp, SECONDS)
  const auditWrite = histogram(meter, METRICS.auditWrite, SECONDS)
  const auditRows = histogram(meter, METRICS.auditRows, ROWS)
  const capsUsed = histogram(meter, METRICS.capsUsed, SHARES)
  const endings = counter(meter, METRICS.endings)
  const refusals = counter(meter, METRICS.refusals)
  const usageCpu = counter(meter, METRICS.usageCpu)
  const usageCost = counter(meter, METRICS.usageCost)
  const redactions = counter(meter, METRICS.redactions)
  const slots = counter(meter, METRICS.slots)
  const traces = counter(meter, METRICS.traces)

  return {
    ended(record) {
      const { audit, result } = record
      const attributes = {
        [ATTRIBUTES.ending]: result.ending,
        [ATTRIBUTES.backend]: result.backend ?? 'none',
      }
      endings.add(1, attributes)
      const [ranS, waitedS] = [result.duration_ms / 1000, result.queue_ms / 1000]
      runTime.record(ranS, attributes)
      wait.record(waitedS)
      exemplars?.note(METRICS.runTime, attributes, SECONDS, record, ranS)
      exemplars?.note(METRICS.wait, {}, SECONDS, record, waitedS)
      for (const [dimension, share] of sharesOf(result.caps ?? null))
        capsUsed.record(share, { [ATTRIBUTES.dimension]: dimension })
      if (audit.quota_dimension !== null)
        refusals.add(1, {
          [ATTRIBUTES.dimension]: audit.quota_dimension,
          [ATTRIBUTES.killSwitch]: result.kill_switch === true,
        })
      const where = { [ATTRIBUTES.backend]: result.backend ?? 'none' }
      if (audit.charged_cpu_ms) usageCpu.add(audit.charged_cpu_ms / 1000, where)
      if (audit.cost) usageCost.add(audit.cost / MICRO, where)
      if (audit.redaction_count > 0) redactions.add(audit.redaction_count)
    },
    observeFleet: (read) => observeFleet(meter, read),
    observeWorker: (read) => observeWorker(meter, read),
    observeMemory: (read) => observeMemory(meter, read),
    observeDispatcher: (read) => observeDispatcher(meter, read),
    slotEvent(event) {
      const of = { [ATTRIBUTES.backend]: event.backend }
      if (event.type === 'warmed') return warmUp.record(event.ms / 1000, of)
      const state = event.type === 'taken' ? (event.warm ? 'taken_warm' : 'taken_cold') : event.type
      const why = event.type === 'dropped' ? { [ATTRIBUTES.why]: event.why } : {}
      slots.add(1, { ...of, [ATTRIBUTES.state]: state, ...why })
    },
    auditBatch({ rows, ms, ok }) {
      auditWrite.record(ms / 1000, { [ATTRIBUTES.state]: ok ? 'written' : 'failed' })
      auditRows.record(rows)
    },
    traceDecided: (decision) => traces.add(1, { [ATTRIBUTES.decision]: decision }),
  }
}

/** Used shares of the caps. A cap of 0 has no share. */
function sharesOf(caps: CapsUse | null): [dimension: string, share: number][] {
  if (caps === null) return []
  return Object.entries(caps).flatMap(([dimension, use]) =>
    use !== undefined && use.limit > 0 ? [[dimension, use.used / use.limit]] : [],
  )
}

function observeFleet(meter: Meter, read: Read<FleetReading>): () => void {
  const depth = gauge(meter, METRICS.queueDepth)
  const age = gauge(meter, METRICS.queueAge)
  const window = gauge(meter, METRICS.queueWindow)
  const groupDepth = gauge(meter, METRICS.groupDepth)
  const groupAge = gauge(meter, METRICS.groupAge)
  const slots = gauge(meter, METRICS.fleetSlots)
  const workers = gauge(meter, METRICS.fleetWorkers)
  const beatAge = gauge(meter, METRICS.fleetBeatAge)
  const outbox = gauge(meter, METRICS.outbox)
  const auditFaults = gauge(meter, METRICS.auditFaults)
  const callbacks = gauge(meter, METRICS.callbacks)
  const ofQueue = [depth, age, window, groupDepth, groupAge, outbox, auditFaults, callbacks]
  return observe(meter, [...ofQueue, slots, workers, beatAge], read, (fleet, observed) => {
    for (const [lane, reading] of Object.entries(fleet.lanes)) {
      const of = { [ATTRIBUTES.lane]: lane }
      const { queued, delayed, running } = reading
      observeStates(observed, depth, of, { queued, delayed, running })
      observed.observe(age, (reading.oldest_age_ms ?? 0) / 1000, of)
      observed.observe(window, reading.window, of)
    }
    for (const { group, lane, waiting, running, oldest_age_ms: ageMs } of fleet.groups) {
      const of = { [ATTRIBUTES.workerGroup]: group, [ATTRIBUTES.lane]: lane }
      observeStates(observed, groupDepth, of, { waiting, running })
      observed.observe(groupAge, (ageMs ?? 0) / 1000, of)
    }
    const alive = fleet.workers.filter((worker) => worker.last_seen_ms <= fleet.lockMs)
    const sum = (of: 'slots' | 'running') => alive.reduce((total, worker) => total + worker[of], 0)
    observeStates(observed, slots, {}, { busy: sum('running'), total: sum('slots') })
    const silent = fleet.workers.length - alive.length
    observeStates(observed, workers, {}, { alive: alive.length, silent })
    observed.observe(beatAge, Math.max(0, ...alive.map((worker) => worker.last_seen_ms)) / 1000)
    observed.observe(outbox, fleet.outbox)
    if (fleet.auditFaults !== null) observed.observe(auditFaults, fleet.auditFaults)
    const { due, retrying } = fleet.callbacks
    observeStates(observed, callbacks, {}, { due, retrying })
  })
}

function observeWorker(meter: Meter, read: Read<WorkerReading>): () => void {
  const slots = gauge(meter, METRICS.workerSlots)
  const beatAge = gauge(meter, METRICS.workerBeatAge)
  return observe(meter, [slots, beatAge], read, ({ busy, total, beatAgeMs }, observed) => {
    observeStates(observed, slots, {}, { busy, total })
    if (beatAgeMs !== null) observed.observe(beatAge, beatAgeMs / 1000)
  })
}

function observeMemory(meter: Meter, read: Read<MemoryReading>): () => void {
  const budget = gauge(meter, METRICS.memory)
  const waiting = gauge(meter, METRICS.memoryWaiting)
  return observe(meter, [budget, waiting], read, (memory, observed) => {
    observeStates(observed, budget, {}, { used: memory.usedBytes, limit: memory.limitBytes })
    observed.observe(waiting, memory.waiting)
  })
}

function observeDispatcher(meter: Meter, read: Read<readonly DispatcherPoolReading[]>): () => void {
  const target = gauge(meter, METRICS.spareTarget)
  const sessions = gauge(meter, METRICS.dispatcherSessions)
  const depth = gauge(meter, METRICS.dispatcherDepth)
  return observe(meter, [target, sessions, depth], read, (pools, observed) => {
    for (const reading of pools) {
      const of = { [ATTRIBUTES.poolName]: reading.pool }
      observed.observe(target, reading.spareTarget, of)
      observed.observe(sessions, reading.sessions, of)
      if (reading.depth !== null) observed.observe(depth, reading.depth, of)
    }
  })
}

const optionsOf = (name: MetricName) => {
  const { unit, about } = METRIC_FACTS[name]
  return { unit, description: about }
}

const counter = (meter: Meter, name: MetricName): Counter => meter.createCounter(name, optionsOf(name))

const gauge = (meter: Meter, name: MetricName): ObservableGauge =>
  meter.createObservableGauge(name, optionsOf(name))

const histogram = (meter: Meter, name: MetricName, explicitBucketBoundaries: number[]): Histogram =>
  meter.createHistogram(name, { ...optionsOf(name), advice: { explicitBucketBoundaries } })

function observe<T>(
  meter: Meter,
  observables: Observable[],
  read: Read<T>,
  report: (value: T, observed: BatchObservableResult) => void,
): () => void {
  const callback = async (observed: BatchObservableResult) => {
    report(await read(), observed)
  }
  meter.addBatchObservableCallback(callback, observables)
  return () => meter.removeBatchObservableCallback(callback, observables)
}

function observeStates(
  observed: BatchObservableResult,
  observable: Observable,
  attributes: Attributes,
  states: Record<string, number>,
): void {
  for (const [state, value] of Object.entries(states))
    observed.observe(observable, value, { ...attributes, [ATTRIBUTES.state]: state })
}
