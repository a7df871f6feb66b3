/**
 * Loads lua/*.lua once. A line `--- @include name` is replaced by lua/include/name.lua (each at most once),
 * `K.name` by a key of keys.ts, `B.name` by a name of bullmq-keys.ts and `C.name` by a number of bounds.ts.
 * Keys differ by cell, so each cell has texts of its own. Scripts build the keys they touch from `K`. KEYS[1]
 * only routes the call to the right node of a cluster.
 *
 * Gathered scripts: the calls that a process makes in one turn of its event loop go to the server as one
 * call, which runs them one after the other. Each call has the same result as alone, and a failed one fails
 * alone. That saves about 15 us of server and process time per call.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { QUEUE_BOUNDS, TENANT_DEFAULTS } from './bounds.ts'
import { BULLMQ } from './bullmq-keys.ts'
import { cellOf, type Cell } from './cell.ts'
import { createGathering, togetherCall, togetherText, type ScriptCall } from './redis-calls.ts'

export interface ScriptText {
  source: string
  sha1: string
}

export interface Script {
  name: string
  /** The script runs many gathered calls at once. */
  isGathered: boolean
  textFor(this: void, cell: Cell): ScriptText
}

/** What a script returns: strings, integers, nil and nested arrays. */
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
  blob_ttl: QUEUE_BOUNDS.blobTtlMs,
  unaccepted_blob_ttl: QUEUE_BOUNDS.unacceptedBlobTtlMs,
  inline_reply: QUEUE_BOUNDS.inlineReplyBytes,
  event_entries: QUEUE_BOUNDS.eventEntries,
  event_bytes: QUEUE_BOUNDS.eventStreamBytes,
  earlier_events: QUEUE_BOUNDS.earlierEvents,
  lost_fences: QUEUE_BOUNDS.lostFences,
  run_id_digits: QUEUE_BOUNDS.runIdDigits,
  pick_max: QUEUE_BOUNDS.pickMax,
  promote_max: QUEUE_BOUNDS.promoteMax,
  sweep_max: QUEUE_BOUNDS.sweepMax,
  lost_release: QUEUE_BOUNDS.lostReleaseMs,
  first_estimate: QUEUE_BOUNDS.firstEstimateSeconds,
  average_runs: QUEUE_BOUNDS.averageRuns,
  rivals_max: QUEUE_BOUNDS.rivalsMax,
  look_past: QUEUE_BOUNDS.lookPast,
  priority_max: QUEUE_BOUNDS.priorityMax,
  window_factor: QUEUE_BOUNDS.windowFactor,
  overdue: QUEUE_BOUNDS.overdueMs,
  kind_patience: QUEUE_BOUNDS.kindPatienceMs,
  needs_max: QUEUE_BOUNDS.needsMax,
  demand_agents: QUEUE_BOUNDS.demandAgents,
  long_run: QUEUE_BOUNDS.longRunSeconds,
  bull_events: QUEUE_BOUNDS.bullEvents,
}

const snakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const NAMES: Record<string, string | number> = {
  ...Object.fromEntries(Object.entries(BULLMQ).map(([name, key]) => [`B.${snakeCase(name)}`, `'${key}'`])),
  ...Object.fromEntries(Object.entries(CONSTANTS).map(([name, value]) => [`C.${name}`, value])),
}

/** The names that differ by cell. */
const keyNames = ({ keys, channels }: Cell): Record<string, string> => ({
  ...Object.fromEntries(Object.entries(keys).map(([name, key]) => [`K.${snakeCase(name)}`, `'${key}'`])),
  'K.control': `'${channels.control}'`,
  'K.assigned_channel': `'${channels.assigned}'`,
})

function valueOf(name: string, keys: Record<string, string>): string {
  const value = keys[name] ?? NAMES[name]
  if (value === undefined)
    throw new Error(`a script names ${name}, which no table in keys.ts, bullmq-keys.ts or scripts.ts has`)
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

/** A script whose source `sourceFor` makes once for each cell. */
export function scriptOf(name: string, isGathered: boolean, sourceFor: (cell: Cell) => string): Script {
  const texts = new Map<Cell, ScriptText>()
  return {
    name,
    isGathered,
    textFor(cell) {
      const known = texts.get(cell)
      if (known !== undefined) return known
      const source = sourceFor(cell)
      const text = { source, sha1: createHash('sha1').update(source).digest('hex') }
      texts.set(cell, text)
      return text
    },
  }
}

const named = (lua: string) => (cell: Cell) => {
  const keys = keyNames(cell)
  return lua.replaceAll(/\b[BCK]\.\w+/g, (name) => valueOf(name, keys))
}

const load = (name: string): Script => scriptOf(name, false, named(expand(read(name), new Set())))

/**
 * Loads a gathered script. The part before its line `--- @each` is set up once for all calls, and the part
 * after an optional line `--- @end` runs once after all of them. If `around` names a file of lua/include/,
 * that file runs for each call and calls the script's body as `accept(KEYS, ARGV)`.
 */
function loadGathered(name: string, around?: string): Script {
  const [before = '', body = ''] = read(name).split(/^--- @each$/m)
  const [each = '', end = ''] = body.split(/^--- @end$/m)
  const shared = expand(before, new Set())
  if (around === undefined) return scriptOf(name, true, named(togetherText(shared, each, end)))
  const accept = `${shared}local function accept(KEYS, ARGV)\n${each}\nend\n`
  return scriptOf(name, true, named(togetherText(accept, read(`include/${around}`), end)))
}

export const SCRIPTS = {
  enqueue: loadGathered('enqueue', 'keep-blobs'),
  pick: load('pick'),
  take: load('take'),
  takeAssigned: load('take-assigned'),
  next: loadGathered('next'),
  takeLost: load('take-lost'),
  begin: loadGathered('begin'),
  handover: loadGathered('handover'),
  append: load('append'),
  keep: load('keep'),
  settle: loadGathered('settle'),
  requeue: load('requeue'),
  endUnstarted: load('end-unstarted'),
  await: load('await'),
  locate: load('locate'),
  why: load('why'),
  tenants: load('tenants'),
  demand: load('demand'),
  owners: load('owners'),
  oldest: load('oldest'),
  live: load('live'),
  limits: load('limits'),
  heartbeat: load('heartbeat'),
  sweep: load('sweep'),
  relock: load('relock'),
  shelve: load('shelve'),
} as const

type Gathered = (call: ScriptCall) => Promise<Reply>

/** Most calls gathered. An enqueue takes the server about 60 us, so one call blocks it for at most 2 ms. */
const TOGETHER_MAX = 32

/** The batching function of each gathered script, per connection. */
const gatherings = new WeakMap<Redis, Map<Script, Gathered>>()

/** Runs a script, together with other calls if it is a gathered one. */
export async function run(
  redis: Redis,
  script: Script,
  key: string | readonly string[],
  args: readonly (string | number)[],
): Promise<Reply> {
  const call = { keys: [key].flat(), args }
  return await (script.isGathered ? gatheredOf(redis, script)(call) : evaluate(redis, script, call))
}

function gatheredOf(redis: Redis, script: Script): Gathered {
  const ofRedis = gatherings.get(redis) ?? new Map<Script, Gathered>()
  gatherings.set(redis, ofRedis)
  const known = ofRedis.get(script)
  if (known !== undefined) return known
  const gathered = createGathering<ScriptCall, Reply>(
    async (calls) => list(await evaluate(redis, script, togetherCall(calls))),
    TOGETHER_MAX,
  )
  ofRedis.set(script, gathered)
  return gathered
}

/** Runs a script by its hash. Sends the whole text when the server does not know it (first use, restart). */
async function evaluate(redis: Redis, script: Script, { keys, args }: ScriptCall): Promise<Reply> {
  const { source, sha1 } = script.textFor(cellOf(redis))
  try {
    return (await redis.evalsha(sha1, keys.length, ...keys, ...args)) as Reply
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
    return (await redis.eval(source, keys.length, ...keys, ...args)) as Reply
  }
}

/** Runs a script whose reply is an array that starts with a named code. */
export async function runCoded(
  redis: Redis,
  script: Script,
  key: string | readonly string[],
  args: readonly (string | number)[],
): Promise<{ code: string; rest: Reply[] }> {
  const reply = await run(redis, script, key, args)
  if (!Array.isArray(reply) || typeof reply[0] !== 'string')
    throw new Error(`script ${script.name} answered ${JSON.stringify(reply)}, expected a named code first`)
  return { code: reply[0], rest: reply.slice(1) }
}

/** Reads a string of a reply. Empty when it is nil. */
export const text = (reply: Reply | undefined): string =>
  typeof reply === 'string' ? reply : typeof reply === 'number' ? String(reply) : ''

/** Reads a number of a reply. Null when it is nil or empty. */
export function numberOrNull(reply: Reply | undefined): number | null {
  if (typeof reply === 'number') return reply
  return typeof reply === 'string' && reply !== '' ? Number(reply) : null
}

/** Reads an array of a reply. Empty when it is nil. */
export const list = (reply: Reply | undefined): Reply[] => (Array.isArray(reply) ? reply : [])
