/**
 * The meaning of every metric of names.ts. docs/reference/telemetry.md is generated from this, and dashboards
 * and alerts are checked against it. A name without an entry here does not compile.
 */
import { FLEET_METRIC_FACTS } from './fleet-metric-facts.ts'
import type { MetricFacts } from './metric-facts.ts'
import type { MetricName } from './names.ts'

/** No label names a tenant, agent or execution, so the number of series does not grow with use. */
export const METRIC_FACTS: Readonly<Record<MetricName, MetricFacts>> = {
  ...FLEET_METRIC_FACTS,
  'cofferdam.worker.slots': {
    kind: 'gauge',
    unit: '',
    from: 'worker',
    labels: ['cofferdam.state'],
    states: ['busy', 'total'],
    about: 'Executions that run on this worker, and its slots.',
  },
  'cofferdam.worker.heartbeat_age': {
    kind: 'gauge',
    unit: 's',
    from: 'worker',
    labels: [],
    about: 'Time since Redis last accepted this worker’s heartbeat.',
  },
  'cofferdam.execution.wait': {
    kind: 'histogram',
    unit: 's',
    from: 'worker',
    labels: [],
    about: 'From enqueue until a worker took the execution.',
  },
  'cofferdam.execution.duration': {
    kind: 'histogram',
    unit: 's',
    from: 'worker',
    labels: ['cofferdam.ending', 'cofferdam.backend'],
    about: 'From being taken by a worker to the end of the attempt.',
  },
  'cofferdam.execution.endings': {
    kind: 'counter',
    unit: '',
    from: 'worker',
    labels: ['cofferdam.ending', 'cofferdam.backend'],
    about: 'Attempts by how they ended.',
  },
  'cofferdam.caps.refusals': {
    kind: 'counter',
    unit: '',
    from: 'worker',
    labels: ['cofferdam.cap.dimension', 'cofferdam.cap.kill_switch'],
    about: 'Attempts that a cap refused, by its dimension.',
  },
  'cofferdam.caps.used': {
    kind: 'histogram',
    unit: '1',
    from: 'worker',
    labels: ['cofferdam.cap.dimension'],
    about:
      'Share of the cap that was used when an attempt was admitted or refused. For one tenant, see its ' +
      '`/usage`.',
  },
  'cofferdam.usage.cpu': {
    kind: 'counter',
    unit: 's',
    from: 'worker',
    labels: ['cofferdam.backend'],
    about: 'CPU time charged: measured, or run time × `cpus` where a backend measures none.',
  },
  'cofferdam.usage.cost': {
    kind: 'counter',
    unit: '',
    from: 'worker',
    labels: ['cofferdam.backend'],
    about: 'Cost charged, in units of the prices. For one tenant, see `cofferdam usage`.',
  },
  'cofferdam.redactions': {
    kind: 'counter',
    unit: '',
    from: 'worker',
    labels: [],
    about: 'Secrets redacted from what programs printed.',
  },
  'cofferdam.pool.slots': {
    kind: 'counter',
    unit: '',
    from: 'worker',
    labels: ['cofferdam.backend', 'cofferdam.state', 'cofferdam.pool.why'],
    states: ['taken_warm', 'taken_cold', 'warm_failed', 'dropped'],
    about: 'Sandbox slots by what became of them; `cofferdam.pool.why` on dropped ones.',
  },
  'cofferdam.pool.warm_up': {
    kind: 'histogram',
    unit: 's',
    from: 'worker',
    labels: ['cofferdam.backend'],
    about: 'From the start of a slot until its interpreter was ready: the refill time.',
  },
  'cofferdam.memory.budget': {
    kind: 'gauge',
    unit: 'By',
    from: 'worker',
    labels: ['cofferdam.state'],
    states: ['used', 'limit'],
    about: 'Memory promised to running sandboxes and warm slots, and the budget.',
  },
  'cofferdam.memory.waiting': {
    kind: 'gauge',
    unit: '',
    from: 'worker',
    labels: [],
    about: 'Executions that this worker took and that wait for its memory.',
  },
  'cofferdam.audit.write': {
    kind: 'histogram',
    unit: 's',
    from: 'worker',
    labels: ['cofferdam.state'],
    states: ['written', 'failed'],
    about: 'One batch of audit rows, from being sent to Postgres to its answer.',
  },
  'cofferdam.audit.batch_rows': {
    kind: 'histogram',
    unit: '',
    from: 'worker',
    labels: [],
    about: 'Rows of one batch.',
  },
  'cofferdam.traces': {
    kind: 'counter',
    unit: '',
    from: 'api and worker',
    labels: ['cofferdam.trace.decision'],
    about:
      'Executions and requests, by the reason why their spans were sent to the collector or dropped. ' +
      'Without a collector, nothing is counted.',
  },
  'cofferdam.dispatcher.spare_target': {
    kind: 'gauge',
    unit: '',
    from: 'dispatcher',
    labels: ['cofferdam.pool.name'],
    about:
      'Spare sandboxes that the pool should have. KEDA and HPA scale by this number. It rises at once and ' +
      'falls slowly. With several dispatchers, take the sum.',
  },
  'cofferdam.dispatcher.sessions': {
    kind: 'gauge',
    unit: '',
    from: 'dispatcher',
    labels: ['cofferdam.pool.name'],
    about: 'Sessions that this dispatcher serves now.',
  },
  'cofferdam.dispatcher.depth': {
    kind: 'gauge',
    unit: '',
    from: 'dispatcher',
    labels: ['cofferdam.pool.name'],
    about:
      'Work items that wait to be claimed, in all environments of the pool; absent while it is unknown. ' +
      'Every dispatcher reports the same, so take the `max`.',
  },
}
