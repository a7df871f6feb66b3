/**
 * Every span, event, attribute and metric name. Names of the OpenTelemetry semantic conventions are used
 * where they exist (messaging, error, process, service). All others start with `cofferdam.`.
 */

/** Span names, in the order of an execution. */
export const SPANS = {
  /** Server span of a request that enqueues. The braces stand for the route. */
  server: '{method} {route}',
  /** Producer span of an enqueue. The braces stand for the lane. */
  enqueue: 'send {lane}',
  /** Consumer span of one attempt, a child of the producer's span. The gap between them is the queue wait. */
  execution: 'process {lane}',
  admission: 'admission',
  /** A sandbox is opened, or taken from the warm slots. */
  acquire: 'sandbox.acquire',
  /** Files are written, and the sandbox gets ready. */
  prepare: 'sandbox.prepare',
  /** The program runs. It gets this span as TRACEPARENT. */
  run: 'program.run',
  /** Changes of a workspace are read and merged. */
  workspace: 'workspace.take',
  audit: 'audit.record',
  publish: 'result.publish',
} as const
export type SpanName = (typeof SPANS)[keyof typeof SPANS]

/** The name of a lane's span: `{operation} {destination}`, by the messaging conventions. */
export const spanOfLane = (name: typeof SPANS.enqueue | typeof SPANS.execution, lane: string): string =>
  name.replace('{lane}', lane)

export const EVENTS = {
  /** An exception, by OpenTelemetry's conventions. */
  exception: 'exception',
  passedOver: 'backend.passed_over',
  started: 'program.started',
  softTimeout: 'soft_timeout',
  hardTimeout: 'hard_timeout',
} as const
export type EventName = (typeof EVENTS)[keyof typeof EVENTS]

export const ATTRIBUTES = {
  messagingSystem: 'messaging.system',
  /** `send` or `process`. */
  messagingOperationName: 'messaging.operation.name',
  /** The same as the operation name. */
  messagingOperationType: 'messaging.operation.type',
  messagingDestination: 'messaging.destination.name',
  messagingMessageId: 'messaging.message.id',
  /** Code of a CofferdamError, or else the error's class. */
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
  /** The reason why a backend was skipped. */
  reason: 'cofferdam.reason',
  /** State that a metric counts by; metric-catalog.ts lists the values. */
  state: 'cofferdam.state',
  /** Why a warm slot was dropped: `age`, `idle`, `surplus`, `pressure`, `died`, `runs` or `unclean`. */
  why: 'cofferdam.pool.why',
  /** Name of a pool in the dispatcher's settings. */
  poolName: 'cofferdam.pool.name',
  /** Name of a group of workers (COFFERDAM_WORKER_GROUP). */
  workerGroup: 'cofferdam.worker.group',
  /** Why the spans of an execution were sent or not. */
  decision: 'cofferdam.trace.decision',
} as const
export type AttributeName = (typeof ATTRIBUTES)[keyof typeof ATTRIBUTES]

/** Metric names. Prometheus shows dots as underscores, units as suffixes and counters with `_total`. */
export const METRICS = {
  queueDepth: 'cofferdam.queue.depth',
  queueAge: 'cofferdam.queue.age',
  queueWindow: 'cofferdam.queue.window',
  groupDepth: 'cofferdam.group.depth',
  groupAge: 'cofferdam.group.age',
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
  spareTarget: 'cofferdam.dispatcher.spare_target',
  dispatcherSessions: 'cofferdam.dispatcher.sessions',
  dispatcherDepth: 'cofferdam.dispatcher.depth',
} as const
export type MetricName = (typeof METRICS)[keyof typeof METRICS]
