/**
 * Loads lua/*.lua once. A line `--- @include name` is replaced by lua/include/name.lua (each at most once), `K.name` by a
 * key of keys.ts and `C.name` by a number of bounds.ts, so both languages read the same table and no call builds it anew.
 * Scripts build the keys they touch from `K`; KEYS[1] routes the call to the right node of a cluster.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { QUEUE_BOUNDS, TENANT_DEFAULTS } from './bounds.ts'
import { CHANNELS, KEYS } from './keys.ts'

export interface Script {
  name: string
  source: string
  sha1: string
}

/** What Lua hands back: strings, integers, nil and nested arrays. */
export type Reply = string | number | null | Reply[]

const CONSTANTS = {
  weight: TENANT_DEFAULTS.weight,
  concurrency: TENANT_DEFAULTS.concurrency,
  max_queued: TENANT_DEFAULTS.maxQueued,
  ended_ttl: QUEUE_BOUNDS.endedTtlMs,
  idempotency_ttl: QUEUE_BOUNDS.idempotencyTtlMs,
  session_ttl: QUEUE_BOUNDS.sessionTtlMs,
  waiter_ttl: QUEUE_BOUNDS.waiterTtlMs,
  idle_tenant_ttl: QUEUE_BOUNDS.idleTenantTtlMs,
  inline_reply: QUEUE_BOUNDS.inlineReplyBytes,
  event_entries: QUEUE_BOUNDS.eventEntries,
  lost_fences: QUEUE_BOUNDS.lostFences,
  pick_max: QUEUE_BOUNDS.pickMax,
  promote_max: QUEUE_BOUNDS.promoteMax,
  sweep_max: QUEUE_BOUNDS.sweepMax,
  lost_release: QUEUE_BOUNDS.lostReleaseMs,
  first_estimate: QUEUE_BOUNDS.firstEstimateSeconds,
  average_runs: QUEUE_BOUNDS.averageRuns,
  rivals_max: QUEUE_BOUNDS.rivalsMax,
  priority_max: QUEUE_BOUNDS.priorityMax,
  window_factor: QUEUE_BOUNDS.windowFactor,
  overdue: QUEUE_BOUNDS.overdueMs,
  bull_events: QUEUE_BOUNDS.bullEvents,
}

const snakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const NAMES: Record<string, string | number> = {
  ...Object.fromEntries(Object.entries(KEYS).map(([name, key]) => [`K.${snakeCase(name)}`, `'${key}'`])),
  'K.control': `'${CHANNELS.control}'`,
  'K.handed_channel': `'${CHANNELS.handed}'`,
  ...Object.fromEntries(Object.entries(CONSTANTS).map(([name, value]) => [`C.${name}`, value])),
}

function nameToValue(name: string): string {
  const value = NAMES[name]
  if (value === undefined) throw new Error(`a script names ${name}, which neither keys.ts nor scripts.ts has`)
  return String(value)
}

const read = (path: string): string => readFileSync(new URL(`./lua/${path}.lua`, import.meta.url), 'utf8')

function expand(source: string, included: Set<string>): string {
  return source.replaceAll(/^--- @include (\S+)$/gm, (_line, name: string) => {
    if (included.has(name)) return ''
    included.add(name)
    return expand(read(`include/${name}`), included)
  })
}

function load(name: string): Script {
  const source = expand(read(name), new Set()).replaceAll(/\b[KC]\.\w+/g, nameToValue)
  return { name, source, sha1: createHash('sha1').update(source).digest('hex') }
}

export const SCRIPTS = {
  enqueue: load('enqueue'),
  pick: load('pick'),
  take: load('take'),
  takeHanded: load('take-handed'),
  next: load('next'),
  begin: load('begin'),
  append: load('append'),
  settle: load('settle'),
  requeue: load('requeue'),
  endUnstarted: load('end-unstarted'),
  await: load('await'),
  locate: load('locate'),
  live: load('live'),
  limits: load('limits'),
  heartbeat: load('heartbeat'),
  sweep: load('sweep'),
  relock: load('relock'),
  shelve: load('shelve'),
} as const

/** Runs a script by its hash, and by its text once when the server does not know it (first use, restart). */
export async function run(
  redis: Redis,
  script: Script,
  key: string,
  args: readonly (string | number)[],
): Promise<Reply> {
  try {
    return (await redis.evalsha(script.sha1, 1, key, ...args)) as Reply
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
    return (await redis.eval(script.source, 1, key, ...args)) as Reply
  }
}

/** Runs a script whose reply is an array that starts with a named code. */
export async function runCoded(
  redis: Redis,
  script: Script,
  key: string,
  args: readonly (string | number)[],
): Promise<{ code: string; rest: Reply[] }> {
  const reply = await run(redis, script, key, args)
  if (!Array.isArray(reply) || typeof reply[0] !== 'string')
    throw new Error(`script ${script.name} answered ${JSON.stringify(reply)}, expected a named code first`)
  return { code: reply[0], rest: reply.slice(1) }
}

/** Reads a string of a reply; empty when it is nil. */
export const text = (reply: Reply | undefined): string =>
  typeof reply === 'string' ? reply : typeof reply === 'number' ? String(reply) : ''

/** Reads a number of a reply; null when it is nil or empty. */
export function numberOrNull(reply: Reply | undefined): number | null {
  if (typeof reply === 'number') return reply
  return typeof reply === 'string' && reply !== '' ? Number(reply) : null
}

/** Reads an array of a reply; empty when it is nil. */
export const list = (reply: Reply | undefined): Reply[] => (Array.isArray(reply) ? reply : [])
