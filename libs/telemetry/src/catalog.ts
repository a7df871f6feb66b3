/**
 * The meaning of every span, event and attribute of names.ts. docs/reference/telemetry.md is generated from
 * this, from metric-catalog.ts and from log-records.ts. A name without an entry here does not compile.
 */
import type { AttributeName, EventName, SpanName } from './names.ts'

/**
 * The process that reports a span or metric. The API reads the metrics of queue and fleet from Redis, so all
 * its replicas report the same values.
 */
export type Teller = 'api' | 'worker' | 'api and worker' | 'producer' | 'dispatcher'

export interface SpanFacts {
  kind: 'server' | 'producer' | 'consumer' | 'internal'
  from: Teller
  parent: string
  attributes: readonly AttributeName[]
  events?: readonly EventName[]
  about: string
}

const ABOUT_EXECUTION = ['cofferdam.execution.id', 'cofferdam.attempt'] as const
const WHERE = ['cofferdam.backend', 'cofferdam.isolation', 'cofferdam.warm', 'cofferdam.vendor.ref'] as const

/** A failed span also has `error.type`, an error status, and often the event `exception`. */
export const SPAN_FACTS: Readonly<Record<SpanName, SpanFacts>> = {
  '{method} {route}': {
    kind: 'server',
    from: 'api',
    parent: 'the `traceparent` of the request',
    attributes: [
      'http.request.method',
      'http.route',
      'http.response.status_code',
      'url.path',
      'url.scheme',
      'cofferdam.execution.id',
      'cofferdam.ending',
      'error.type',
    ],
    about:
      'A request that enqueues an execution, e.g. `POST /v1/executions`. `cofferdam.ending` is set if the ' +
      'request waited for the ending.',
  },
  'send {lane}': {
    kind: 'producer',
    from: 'producer',
    parent: 'the server span, or the producer’s active span',
    attributes: [
      'messaging.system',
      'messaging.operation.name',
      'messaging.operation.type',
      'messaging.destination.name',
      'cofferdam.tenant.id',
      'cofferdam.agent.id',
    ],
    about: 'The execution is put into the queue.',
  },
  'process {lane}': {
    kind: 'consumer',
    from: 'worker',
    parent: '`send {lane}`',
    attributes: [
      'messaging.system',
      'messaging.operation.name',
      'messaging.operation.type',
      'messaging.destination.name',
      'messaging.message.id',
      ...ABOUT_EXECUTION,
      'cofferdam.tenant.id',
      'cofferdam.agent.id',
      'cofferdam.worker.id',
      'cofferdam.queue.wait_ms',
      'cofferdam.ending',
    ],
    about:
      'One attempt, from being taken to its published ending. The gap before it is the wait in the queue.',
  },
  admission: {
    kind: 'internal',
    from: 'worker',
    parent: '`process {lane}`',
    attributes: ['error.type'],
    about: 'One script in Redis checks caps and rate, and takes the lease.',
  },
  'sandbox.acquire': {
    kind: 'internal',
    from: 'worker',
    parent: '`process {lane}`',
    attributes: [...ABOUT_EXECUTION, ...WHERE],
    events: ['backend.passed_over'],
    about: 'A sandbox is opened, or bound from a warm slot.',
  },
  'sandbox.prepare': {
    kind: 'internal',
    from: 'worker',
    parent: '`process {lane}`',
    attributes: ABOUT_EXECUTION,
    about: 'The worker writes the files into the sandbox and waits until it is ready.',
  },
  'program.run': {
    kind: 'internal',
    from: 'worker',
    parent: '`process {lane}`',
    attributes: [...ABOUT_EXECUTION, ...WHERE, 'cofferdam.ending', 'process.exit.code'],
    events: ['program.started', 'soft_timeout', 'hard_timeout'],
    about:
      'The program. Inside the sandbox, `TRACEPARENT` names this span, so a program’s own spans are its ' +
      'children. The span starts before the hand-over, which `program.started` marks. Without a hand-over ' +
      'it is never sent.',
  },
  'workspace.take': {
    kind: 'internal',
    from: 'worker',
    parent: '`process {lane}`',
    attributes: ABOUT_EXECUTION,
    about: 'The worker reads and merges what the program changed in the workspace, if the request names one.',
  },
  'audit.record': {
    kind: 'internal',
    from: 'worker',
    parent: '`process {lane}`',
    attributes: ['error.type'],
    about: 'The audit row is written, or goes to the outbox.',
  },
  'result.publish': {
    kind: 'internal',
    from: 'worker',
    parent: '`process {lane}`',
    attributes: ['error.type'],
    about: 'The ending becomes visible; waiters are told.',
  },
}

export const EVENT_FACTS: Readonly<Record<EventName, string>> = {
  exception:
    'What was thrown: `exception.type`, `exception.message`, `exception.stacktrace`. Keys of tenants see ' +
    'only the type.',
  'backend.passed_over':
    'A preferred backend did not fit or could not open a sandbox (`cofferdam.backend`, ' +
    '`cofferdam.reason`). The next one was tried. Also in the audit row, as `passed_over`.',
  'program.started': 'The program was handed over: the point of no return.',
  soft_timeout: 'The soft deadline passed; the program was asked to stop.',
  hard_timeout: 'The hard deadline passed; the process tree was killed.',
}

export const ATTRIBUTE_FACTS: Readonly<Record<AttributeName, string>> = {
  'messaging.system': '`bullmq`',
  'messaging.operation.name': '`send` or `process`',
  'messaging.operation.type': '`send` or `process`',
  'messaging.destination.name': 'the lane: `interactive` or `routine`',
  'messaging.message.id': 'the execution id',
  'error.type': 'code of a platform error (docs/errors.md) or the ending, else the class of what was thrown',
  'exception.type': 'class of what was thrown',
  'exception.message': 'its message, redacted',
  'exception.stacktrace': 'its stack, redacted',
  'process.exit.code': 'exit code of the program; absent when a signal ended it',
  'http.request.method': '`POST`, …',
  'http.route': 'the route, e.g. `/v1/executions`',
  'http.response.status_code': 'status of the answer',
  'url.path': 'the path asked for, without its query',
  'url.scheme': '`http` or `https`',
  'cofferdam.execution.id': '`exe_…`',
  'cofferdam.attempt': '1 for the first try',
  'cofferdam.tenant.id': 'the tenant; on spans only',
  'cofferdam.agent.id': 'the agent; on spans only',
  'cofferdam.worker.id': '`wrk_…`',
  'cofferdam.queue.wait_ms': 'from enqueue to being taken, milliseconds',
  'cofferdam.backend': 'name of the backend, `none` before one was chosen',
  'cofferdam.isolation': 'its isolation, e.g. `container`',
  'cofferdam.warm': 'true for a warm sandbox, false for a cold start',
  'cofferdam.vendor.ref':
    'what a vendor’s own logs call the sandbox: a session id, `claim/pod`, a hash of Azure’s identifier; ' +
    'on spans only',
  'cofferdam.ending': 'how it ended (docs/errors.md)',
  'cofferdam.lane': '`interactive` or `routine`',
  'cofferdam.cap.dimension': '`tenant_daily`, `agent_hourly`, … or `unknown` while Redis cannot say',
  'cofferdam.cap.kill_switch': 'true when the cap is 0',
  'cofferdam.reason':
    'why a backend was passed over: `backend_full`, `backend_unavailable`, `circuit_open`, ' +
    '`sandbox_open_failed`, …',
  'cofferdam.state': 'state of what the metric counts; the table of metrics lists the values',
  'cofferdam.pool.why':
    'why a waiting slot was given up: `age`, `idle`, `surplus`, `pressure`, `died`, `runs` or `unclean`',
  'cofferdam.pool.name': 'name of a pool in the dispatcher’s settings',
  'cofferdam.worker.group': 'name of a group of workers (`COFFERDAM_WORKER_GROUP`)',
  'cofferdam.trace.decision': '`failed`, `slow` or `ratio` (sent), or `dropped`',
}
