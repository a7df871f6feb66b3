/** Puts, takes and settles executions over BullMQ, fairly between tenants. */
export { claimAuditLook, keepAuditFaults, readAuditFaults } from './audit-faults.ts'
export type { Interrupted, Place } from './begun-mark.ts'
export { LOCK_MS, QUEUE_BOUNDS, SWEEP_MS } from './bounds.ts'
export { connectRedis, isRedisAway, type RedisRole } from './connect.ts'
export type { CancelledPage, TenantCancel } from './cancel-tenant.ts'
export { createConsumer, type Consumer, type ConsumerDeps } from './consumer.ts'
export type { QueueLogger } from './carried-work.ts'
export { composeUnstarted } from './ending.ts'
export { withEnqueueSpan } from './enqueue-span.ts'
export { CHANNELS, KEYS, LANES, TAG, type Lane } from './keys.ts'
export { meetsNeed, needOf, offerOf, type Offer } from './needs.ts'
export {
  createProducer,
  type LivePage,
  type Producer,
  type ProducerDeps,
  type TenantQueueLimits,
} from './producer.ts'
export type { Room } from './room.ts'
export type { LaneStats, QueueStats } from './queue-stats.ts'
export { createTraceShelf, readShelvedTrace, type OfferedTrace, type TraceShelf } from './trace-shelf.ts'
export type { LostExecution } from './sweep.ts'
export type { EndingInfo, Taken } from './taken.ts'
