/** The meaning of the metrics that the API reads from Redis: queue, groups of workers and fleet. */
import type { MetricFacts } from './metric-facts.ts'
import type { MetricName } from './names.ts'

export const FLEET_METRIC_FACTS = {
  'cofferdam.queue.depth': {
    kind: 'gauge',
    unit: '',
    from: 'api',
    labels: ['cofferdam.lane', 'cofferdam.state'],
    states: ['queued', 'delayed', 'running'],
    about: 'Executions by state. `running` includes those that are released to workers and not yet taken.',
  },
  'cofferdam.queue.age': {
    kind: 'gauge',
    unit: 's',
    from: 'api',
    labels: ['cofferdam.lane'],
    about: 'How long the oldest waiting execution has been due; 0 when none waits.',
  },
  'cofferdam.queue.window': {
    kind: 'gauge',
    unit: '',
    from: 'api',
    labels: ['cofferdam.lane'],
    about:
      'Most executions that may be released to workers or running at once; 0 while no worker serves the ' +
      'lane.',
  },
  'cofferdam.group.depth': {
    kind: 'gauge',
    unit: '',
    from: 'api',
    labels: ['cofferdam.worker.group', 'cofferdam.lane', 'cofferdam.state'],
    states: ['waiting', 'running'],
    about:
      'Executions for one group of workers: waiting ones that would start if it had free slots, and ' +
      'running ones. If several groups could run an execution, each counts a part of it. At most 64 groups ' +
      'are reported.',
  },
  'cofferdam.group.age': {
    kind: 'gauge',
    unit: 's',
    from: 'api',
    labels: ['cofferdam.worker.group', 'cofferdam.lane'],
    about:
      'How long the oldest execution has been due, among those whose turn is next at one group of workers; ' +
      '0 when none waits.',
  },
  'cofferdam.fleet.slots': {
    kind: 'gauge',
    unit: '',
    from: 'api',
    labels: ['cofferdam.state'],
    states: ['busy', 'total'],
    about: 'Slots of all living workers, from their heartbeats; a draining worker has none.',
  },
  'cofferdam.fleet.workers': {
    kind: 'gauge',
    unit: '',
    from: 'api',
    labels: ['cofferdam.state'],
    states: ['alive', 'silent'],
    about:
      'Workers that sent a heartbeat within the lock time (9 s), and those that fell silent and are not ' +
      'yet forgotten.',
  },
  'cofferdam.fleet.heartbeat_age': {
    kind: 'gauge',
    unit: 's',
    from: 'api',
    labels: [],
    about: 'Age of the oldest heartbeat among living workers; they beat every second.',
  },
  'cofferdam.outbox.records': {
    kind: 'gauge',
    unit: '',
    from: 'api',
    labels: [],
    about: 'Attempt records that Postgres has not got yet.',
  },
  'cofferdam.audit.faults': {
    kind: 'gauge',
    unit: '',
    from: 'api',
    labels: [],
    about:
      'Number of faults in the audit tables, from the last check (`audit_faults()`, hourly, by one ' +
      'worker). Absent if there was no check for three hours.',
  },
  'cofferdam.callbacks': {
    kind: 'gauge',
    unit: '',
    from: 'api',
    labels: ['cofferdam.state'],
    states: ['due', 'retrying'],
    about:
      'Results on their way to a `callback_url`: to be posted now, and waiting for another try after a ' +
      'failed one.',
  },
} satisfies Partial<Record<MetricName, MetricFacts>>
