/**
 * Every key and channel of the queue of one cell. All share the cell's hash tag (cell.ts), so on Redis
 * Cluster any script may use any of them. Lua has the same names as `K` (scripts.ts). BullMQ's keys are
 * `<tag>:<lane>:…` (bullmq-keys.ts).
 *
 * Tenants, agents and IDs never contain `:` (contract nameSchema), so composed names are unambiguous. Session
 * keys may contain it (contract sessionKeySchema), so they come last.
 */
import type { ExecutionRequest } from '@cofferdam/contract'

export type Lane = ExecutionRequest['lane']
export const LANES: readonly Lane[] = ['interactive', 'routine']

export type QueueKeys = ReturnType<typeof queueKeys>
export type QueueChannels = ReturnType<typeof queueChannels>

type At = (name: string) => string

/** Keys of the queue of one cell. `at` puts the cell's hash tag before a name. */
export const queueKeys = (at: At) => ({
  /** The worker that checks the audit tables in this round. */
  auditLook: at('audit:look'),
  /** How many faults the last check of the audit tables found. */
  auditFaults: at('audit:faults'),
  /** The worker that looks for expired blobs in the bucket in this round. */
  bucketLook: at('bucket:look'),
  /** `<id>` → hash, the record of an execution, which decides its state. */
  record: at('x:'),
  /** `<id>` → result JSON. */
  result: at('r:'),
  /** `<id>` → stream of live events. */
  events: at('e:'),
  /**
   * `<id>` → set of reply channels, without the channel of the client that put the execution (`wc` of the
   * record).
   */
  waiters: at('w:'),
  /** `<sha256>` → a large part of a request. */
  blob: at('blob:'),
  /** `<tenant>:<sha256 of the key>` → `<id> <body hash>`. */
  idempotency: at('idem:'),
  /** `<tenant>` → hash of its counters and virtual times. */
  tenant: at('t:'),
  /** hash: tenant → `weight|concurrency|max_queued`, empty where the default holds. */
  limits: at('limits'),
  /** set: tenants whose executions share the session of their run. */
  runSessions: at('run-sessions'),
  /** `<class>:<tenant>:<agent>` → zset of ids in order of start. Classes: lua/include/kinds.lua. */
  backlog: at('b:'),
  /** `<class>:<tenant>` → zset of agents with a backlog, by turn. */
  turns: at('turns:'),
  /** `<lane>:<tenant>` → set of the classes, besides the lane itself, in which the tenant has a backlog. */
  classes: at('classes:'),
  /** `<lane>` → zset of tenants with a backlog, each with score 1. */
  queued: at('queued:'),
  /** `<tenant>:<key>` → hash of a session: front and owner (lua/include/session.lua). */
  session: at('s:'),
  /** `<tenant>:<key>` → zset of ids that wait behind the front of their session, in order of arrival. */
  sessionQueue: at('sq:'),
  /** `<lane>:<worker>` → zset of ids assigned to this worker, by virtual time. */
  assigned: at('handed:'),
  /** `<lane>:<kind>` → zset of tenants that may be served by workers of a kind, by virtual time. */
  ring: at('ring:'),
  /** `<lane>` → zset of waiting ids by the moment they became due. */
  waiting: at('waiting:'),
  /** `<lane>` → zset of delayed ids by due time. */
  delayed: at('delayed:'),
  /**
   * `<lane>` → zset of released or running ids by the moment of their release, or of a later job from the
   * sweep.
   */
  out: at('out:'),
  /** hash: `<lane>:<kind>` → how many of `out` are at workers of a kind or released for them. */
  outs: at('outs'),
  /** zset of known kinds of workers, by the last heartbeat of one. */
  kinds: at('kinds'),
  /** hash: kind → what its workers offer. */
  offers: at('offers'),
  /**
   * hash, a cache: need → the kinds that can serve it, and those words of the need that distinguish kinds.
   */
  servers: at('servers'),
  /** zset of parked tenants by the moment they return. */
  parked: at('parked'),
  /** hash: virtual clock per lane and kind, mean slot seconds per lane, sweep cursors. */
  clock: at('clock'),
  /** counter that orders backlogs. */
  sequence: at('seq'),
  /** `<tenant>` → zset of live ids in order of enqueue. */
  live: at('live:'),
  /** zset of the live ids of all tenants in order of enqueue. */
  allLive: at('live-all'),
  /** hash: how many executions may be outstanding, in total and per lane; `<kind>:…` for one kind. */
  window: at('window'),
  /** zset of workers by last heartbeat. */
  beats: at('beats'),
  /** hash: worker → `fillable slots|interactive|routine|running|lock ms|slots|kind`. */
  workers: at('workers'),
  /** hash: process → its version and when it last said so (fleet-versions.ts). */
  versions: at('versions'),
  /**
   * hash: worker → `{ at_ms, backends }`, which it writes every 20 s. That of a killed worker stays until
   * another worker removes it.
   */
  backends: at('backends'),
  /** stream of attempt records that Postgres does not have yet. */
  outbox: at('outbox'),
  /** `<id>` → hash: part → its spans as JSON (trace-shelf.ts). */
  trace: at('trace:'),
  /** zset of the ids in `trace`, by the moment at which their spans were stored. */
  traces: at('traces'),
  /** list of `<id> <tenant> <url>`: ended executions whose callback is due. */
  callbacksDue: at('callbacks-due'),
  /** `<id>` → blob reference of the files that an attempt left for the next. */
  checkpoint: at('ck:'),
  /**
   * Name `<tenant>:<session id>:<name>`; JSON of what the session's sandbox has of a workspace
   * (apps/worker/src/workspaces.ts).
   */
  workspace: at('ws:'),
  /** `<id>` → hash: the status of its callback. */
  callbackStatus: at('cb:'),
  outboxLock: at('outbox-lock'),
  sweepLock: at('sweep-lock'),
  /** `<producer>` → stream that wakes its event reader. */
  wake: at('wake:'),
  /** prefix of BullMQ's keys; only lua/include/bullmq.lua uses it. */
  bull: at(''),
})

/** Channels of the queue of one cell. */
export const queueChannels = (at: At) => ({
  /** To all workers: `cancel <id>` or `due <ms from now>`. */
  control: at('control'),
  /** `<worker>` → the lane in which an execution was assigned to it. */
  assigned: at('to:'),
  /** `<producer>` → `<id>` or `<id> <result JSON>`. */
  reply: at('reply:'),
})

/** ID of the BullMQ job for the n-th release of an execution, unique per release. */
export function jobIdOf(id: string, release: number): string {
  return release === 1 ? id : `${id}.${release}`
}

/** Inverse of `jobIdOf`. */
export function releaseOf(jobId: string): { id: string; release: number } {
  const dot = jobId.indexOf('.')
  return dot === -1
    ? { id: jobId, release: 1 }
    : { id: jobId.slice(0, dot), release: Number(jobId.slice(dot + 1)) }
}
