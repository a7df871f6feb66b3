/**
 * Every span, event, attribute and metric name in one place (DESIGN §9). Where the OpenTelemetry semantic conventions
 * have a name, it is theirs: messaging, error, process, service. The rest begins with `cofferdam.`.
 */

/** Span names, in the order in which one execution meets them. */
export const SPANS = {
  /** Server span of a request that enqueues; the route stands in place of the braces. */
  server: '{method} {route}',
  /** Producer span: the execution is put into the queue of a lane, which stands in place of the braces. */
  enqueue: 'send {lane}',
  /** Consumer span of one attempt; its parent is the producer's traceparent. The gap before it is the queue wait. */
  execution: 'process {lane}',
  admission: 'admission',
  /** A sandbox is opened or bound from a warm slot. */
  acquire: 'sandbox.acquire',
  /** Files go in, readiness is awaited. */
  prepare: 'sandbox.prepare',
  /** The program runs; the sandbox gets this span as TRACEPARENT. */
  run: 'program.run',
  /** A workspace's changes come out and are merged. */
  workspace: 'workspace.take',
  audit: 'audit.record',
  publish: 'result.publish',
} as const
export type SpanName = (typeof SPANS)[keyof typeof SPANS]

/** The name of a span of a lane: `{operation} {destination}`, as the messaging conventions want it. */
export const spanOfLane = (name: typeof SPANS.enqueue | typeof SPANS.execution, lane: string): string =>
  name.replace('{lane}', lane)

/** Names of span events. */
export const EVENTS = {
  /** OpenTelemetry's own: what was thrown. */
  exception: 'exception',
  passedOver: 'backend.passed_over',
  started: 'program.started',
  softTimeout: 'soft_timeout',
  hardTimeout: 'hard_timeout',
} as const
export type EventName = (typeof EVENTS)[keyof typeof EVENTS]

/** Attribute names of spans and metrics. */
export const ATTRIBUTES = {
  messagingSystem: 'messaging.system',
  /** `send` or `process`. */
  messagingOperationName: 'messaging.operation.name',
  /** The same word: BullMQ has no other. */
  messagingOperationType: 'messaging.operation.type',
  /** The lane. */
  messagingDestination: 'messaging.destination.name',
  /** The execution id. */
  messagingMessageId: 'messaging.message.id',
  /** Code of a CofferdamError, else the error's class. */
  errorType: 'error.type',
  exceptionType: 'exception.type',
  exceptionMessage: 'exception.message',
  exceptionStacktrace: 'exception.stacktrace',
  exitCode: 'process.exit.code',
  httpMethod: 'http.request.method',
  httpRoute: 'http.route',
  httpStatus: 'http.response.status_code',
  urlPath: 'url.path',
  urlScheme: 'url.scheme',
  executionId: 'cofferdam.execution.id',
  attempt: 'cofferdam.attempt',
  tenantId: 'cofferdam.tenant.id',
  agentId: 'cofferdam.agent.id',
  workerId: 'cofferdam.worker.id',
  queueWaitMs: 'cofferdam.queue.wait_ms',
  backend: 'cofferdam.backend',
  isolation: 'cofferdam.isolation',
  warm: 'cofferdam.warm',
  vendorRef: 'cofferdam.vendor.ref',
  ending: 'cofferdam.ending',
  lane: 'cofferdam.lane',
  dimension: 'cofferdam.cap.dimension',
  killSwitch: 'cofferdam.cap.kill_switch',
  /** The word for why a backend was passed over. */
  reason: 'cofferdam.reason',
  /** Of what a metric counts: the values stand in metric-catalog.ts. */
  state: 'cofferdam.state',
  /** Why a waiting slot was given up: `age`, `idle`, `surplus`, `pressure`, `died`, `runs` or `unclean`. */
  why: 'cofferdam.pool.why',
  /** Why the spans of an execution were kept or not. */
  decision: 'cofferdam.trace.decision',
} as const
export type AttributeName = (typeof ATTRIBUTES)[keyof typeof ATTRIBUTES]

/** Metric names. Prometheus shows dots as underscores, units as suffixes and counters with `_total`. */
export const METRICS = {
  queueDepth: 'cofferdam.queue.depth',
  queueAge: 'cofferdam.queue.age',
  queueWindow: 'cofferdam.queue.window',
  fleetSlots: 'cofferdam.fleet.slots',
  fleetWorkers: 'cofferdam.fleet.workers',
  fleetBeatAge: 'cofferdam.fleet.heartbeat_age',
  outbox: 'cofferdam.outbox.records',
  auditFaults: 'cofferdam.audit.faults',
  callbacks: 'cofferdam.callbacks',
  workerSlots: 'cofferdam.worker.slots',
  workerBeatAge: 'cofferdam.worker.heartbeat_age',
  wait: 'cofferdam.execution.wait',
  runTime: 'cofferdam.execution.duration',
  endings: 'cofferdam.execution.endings',
  refusals: 'cofferdam.caps.refusals',
  capsUsed: 'cofferdam.caps.used',
  usageCpu: 'cofferdam.usage.cpu',
  usageCost: 'cofferdam.usage.cost',
  redactions: 'cofferdam.redactions',
  slots: 'cofferdam.pool.slots',
  warmUp: 'cofferdam.pool.warm_up',
  memory: 'cofferdam.memory.budget',
  memoryWaiting: 'cofferdam.memory.waiting',
  auditWrite: 'cofferdam.audit.write',
  auditRows: 'cofferdam.audit.batch_rows',
  traces: 'cofferdam.traces',
} as const
export type MetricName = (typeof METRICS)[keyof typeof METRICS]
