/**
 * Every private name of BullMQ that this package uses: keys, and fields of its hashes. No other file spells
 * one out. Lua reads them as `B.name` (scripts.ts), only in lua/include/bullmq.lua (scripts.test.ts checks
 * that).
 *
 * BullMQ does not promise these names. test/bullmq-compatibility.test.ts compares what our scripts and BullMQ
 * leave in them, and fails if another version is installed. docs/decisions/0017 has reasons and figures.
 */
import type { Redis } from 'ioredis'
import { cellOf } from './cell.ts'

/** The version whose data these names and the scripts were compared with. */
export const BULLMQ_VERSION = '6.7.0'

/**
 * Suffixes of BullMQ's keys, with their Redis type. Each follows `<tag of the cell>:<queue>`. `lock` follows
 * the key of a job.
 */
export const BULLMQ = {
  /** Sorted set of jobs that wait, by priority and then by order of arrival. */
  prioritized: ':prioritized',
  /** Counter that numbers the jobs in order of arrival. */
  priorityCounter: ':pc',
  /**
   * List of jobs without a priority. Here these are jobs of dead workers, from BullMQ's stalled check or
   * added again by the sweep.
   */
  wait: ':wait',
  /** List of jobs that workers have. */
  active: ':active',
  /** Set of active jobs whose lock the next stalled check looks at. */
  stalled: ':stalled',
  /** Sorted set that wakes one waiting worker. */
  marker: ':marker',
  /** Hash of the queue's settings. */
  meta: ':meta',
  /** Stream of BullMQ's events. */
  events: ':events',
  /** Sorted set of delayed jobs. */
  delayed: ':delayed',
  /** String at the key of a job plus this suffix: the token of the worker that has the job. */
  lock: ':lock',

  /** Fields of `meta`. */
  metaPaused: 'paused',
  metaConcurrency: 'concurrency',
  metaRateLimit: 'max',
  metaMaxEvents: 'opts.maxLenEvents',

  /** Fields of a job's hash. */
  jobName: 'name',
  jobData: 'data',
  jobOptions: 'opts',
  jobTimestamp: 'timestamp',
  jobDelay: 'delay',
  jobPriority: 'priority',
  jobProcessedOn: 'processedOn',
  jobProcessedBy: 'pb',
  jobAttemptsStarted: 'ats',
} as const

type Part = 'meta' | 'marker' | 'wait' | 'active' | 'delayed'

/** The full key of one part of a queue, in the cell of the connection. */
export const bullmqKey = (redis: Redis, queue: string, part: Part): string =>
  `${cellOf(redis).tag}:${queue}${BULLMQ[part]}`
