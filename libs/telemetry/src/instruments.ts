/**
 * The instruments of the fleet on a meter. Labels come from closed sets only (lane, ending, backend, dimension): never a
 * tenant, agent or execution, so that the number of series does not grow with use.
 */
import type { AttemptRecord } from '@cofferdam/contract'
import type { Attributes, BatchObservableResult, Meter, Observable } from '@opentelemetry/api'
import { ATTRIBUTES, METRICS } from './names.ts'

/** One lane of the queue, as QueueStats has it under the lane's name. */
export interface QueueReading {
  queued: number
  delayed: number
  running: number
  /** Age of the oldest execution that waits; null when none does. */
  oldest_age_ms: number | null
}

/** What happened to a warm slot, as the backends tell it. */
export type SlotEvent =
  | { type: 'taken'; backend: string; warm: boolean }
  | { type: 'warmed'; backend: string; ms: number }
  | { type: 'warm_failed'; backend: string }
  | { type: 'dropped'; backend: string; why: string }

export interface MemoryReading {
  usedBytes: number
  limitBytes: number
}

/** A value now, or one that is fetched when metrics are collected. */
type Read<T> = () => T | Promise<T>

export interface Instruments {
  /** Counts one attempt's ending: its class, waits and run time, refusal and redactions. */
  ended(record: AttemptRecord): void
  /** Observes the queue at each collection; returns how to stop. A reader that throws leaves a gap. */
  observeQueue(read: Read<Readonly<Record<string, QueueReading>>>): () => void
  /** Counts slots that were taken, warmed, failed to warm and dropped. */
  slotEvent(event: SlotEvent): void
  observeMemory(read: Read<MemoryReading>): () => void
}

/** Seconds: from a warm start (10 ms) to the longest run (24 h), each about 2-3 times the one before. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86_400]

/** Creates the instruments; once per process and meter. */
export function createInstruments(meter: Meter): Instruments {
  const advice = { explicitBucketBoundaries: SECONDS }
  const wait = meter.createHistogram(METRICS.wait, {
    unit: 's',
    description: 'From enqueue until a worker took the execution.',
    advice,
  })
  const runTime = meter.createHistogram(METRICS.runTime, {
    unit: 's',
    description: 'From being taken by a worker to the end of the attempt.',
    advice,
  })
  const endings = meter.createCounter(METRICS.endings, { description: 'Attempts by how they ended.' })
  const refusals = meter.createCounter(METRICS.refusals, {
    description: 'Attempts that a cap refused, by its dimension.',
  })
  const redactions = meter.createCounter(METRICS.redactions, {
    description: 'Secrets redacted from what programs printed.',
  })
  const depth = meter.createObservableGauge(METRICS.queueDepth, { description: 'Executions by state.' })
  const age = meter.createObservableGauge(METRICS.queueAge, {
    unit: 's',
    description: 'Age of the oldest execution that waits; 0 when none does.',
  })
  const slots = meter.createCounter(METRICS.slots, {
    description:
      'Sandbox slots by what became of them: taken warm, taken cold, failed to warm, dropped (and why).',
  })
  const warmUp = meter.createHistogram(METRICS.warmUp, {
    unit: 's',
    description: 'From the start of a slot until its interpreter waited.',
    advice,
  })
  const memory = meter.createObservableGauge(METRICS.memory, {
    unit: 'By',
    description: 'Memory promised to running sandboxes and warm slots, and the budget.',
  })

  return {
    ended({ audit, result }) {
      const attributes = {
        [ATTRIBUTES.ending]: result.ending,
        [ATTRIBUTES.backend]: result.backend ?? 'none',
      }
      endings.add(1, attributes)
      runTime.record(result.duration_ms / 1000, attributes)
      wait.record(result.queue_ms / 1000)
      if (audit.quota_dimension !== null)
        refusals.add(1, {
          [ATTRIBUTES.dimension]: audit.quota_dimension,
          [ATTRIBUTES.killSwitch]: result.kill_switch === true,
        })
      if (audit.redaction_count > 0) redactions.add(audit.redaction_count)
    },
    observeQueue: (read) =>
      observe(meter, [depth, age], read, (lanes, observed) => {
        for (const [lane, { queued, delayed, running, oldest_age_ms: ageMs }] of Object.entries(lanes)) {
          const of = { [ATTRIBUTES.lane]: lane }
          observeStates(observed, depth, of, { queued, delayed, running })
          observed.observe(age, (ageMs ?? 0) / 1000, of)
        }
      }),
    slotEvent(event) {
      const of = { [ATTRIBUTES.backend]: event.backend }
      if (event.type === 'warmed') return warmUp.record(event.ms / 1000, of)
      const state = event.type === 'taken' ? (event.warm ? 'taken_warm' : 'taken_cold') : event.type
      const why = event.type === 'dropped' ? { [ATTRIBUTES.why]: event.why } : {}
      slots.add(1, { ...of, [ATTRIBUTES.state]: state, ...why })
    },
    observeMemory: (read) =>
      observe(meter, [memory], read, ({ usedBytes, limitBytes }, observed) =>
        observeStates(observed, memory, {}, { used: usedBytes, limit: limitBytes }),
      ),
  }
}

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
