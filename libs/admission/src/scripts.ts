/**
 * The Lua scripts as typed calls: EVALSHA through ioredis, which loads a script again after a server restart.
 * Every key is declared. Each call is bounded in time, because a connection with an offline queue waits for ever.
 */
import { CofferdamError } from '@cofferdam/contract'
import {
  boundedAnswer,
  createGathering,
  togetherCall,
  togetherText,
  type ScriptCall,
} from '@cofferdam/queue/redis-calls'
import type { Redis } from 'ioredis'
import { readFileSync } from 'node:fs'

const NAMES = [
  'admit',
  'refund',
  'release',
  'renew',
  'usage',
  'seed',
  'set-caps',
  'take-turn',
  'unsettled',
  'recharge',
] as const
export type ScriptName = (typeof NAMES)[number]

export interface Scripts {
  /**
   * Runs a script and returns its named code and the rest of its reply.
   * `late` hears how a call ended that had already been given up; null when it failed.
   * Throws CofferdamError('queue_unavailable') when Redis fails, is too slow, or answers nonsense.
   */
  run(
    name: ScriptName,
    keys: readonly string[],
    args: readonly (string | number)[],
    late?: (reply: Reply | null) => void,
  ): Promise<Reply>
}

export interface Reply {
  code: string
  rest: readonly (string | number)[]
}

/** What every attempt needs: the calls of one turn of the process go together, tenant by tenant. */
const GATHERED: ReadonlySet<ScriptName> = new Set(['admit', 'release'])
/** They are told a run of the server (lua/server-run.lua). */
const OF_A_RUN: ReadonlySet<ScriptName> = new Set(['admit', 'recharge', 'usage', 'seed'])
/** An admission takes the server about 30 us, so that one call holds it for a millisecond. */
const TOGETHER_MAX = 32

type Call = (call: ScriptCall) => Promise<unknown>

/** Defines the scripts on the connection (again is harmless). */
export function defineScripts(redis: Redis, timeoutMs: number): Scripts {
  const calls = new Map(NAMES.map((name) => [name, callOf(redis, name)]))
  return {
    async run(name, keys, args, late) {
      const call = calls.get(name)
      if (call === undefined) throw new CofferdamError('internal', `no script named ${name}`)
      const pending = call({ keys, args }).then((reply) => readReply(name, reply))
      return boundedAnswer(pending, timeoutMs, `admission script ${name}`, late)
    },
  }
}

const readLua = (name: string): string => readFileSync(new URL(`../lua/${name}.lua`, import.meta.url), 'utf8')

function callOf(redis: Redis, name: ScriptName): Call {
  const shared = OF_A_RUN.has(name) ? readLua('server-run') : ''
  const lua = readLua(name)
  const alone = define(redis, name, shared + lua)
  if (!GATHERED.has(name)) return alone
  const together = define(redis, `${name}_together`, togetherText(shared, lua))
  const send = async (calls: readonly ScriptCall[]): Promise<readonly unknown[]> => {
    const [first, second] = calls
    if (first !== undefined && second === undefined) return [await alone(first)]
    const replies = await together(togetherCall(calls))
    return Array.isArray(replies) ? replies : []
  }
  // A tenant's keys may stand on a node of their own: none waits for the answer to another's.
  const ofTurn = new Map<string, Call>()
  return (call) => {
    const tag = tagOf(call.keys[0])
    const gathered = ofTurn.get(tag) ?? createGathering(send, TOGETHER_MAX)
    if (ofTurn.size === 0) process.nextTick(() => ofTurn.clear())
    ofTurn.set(tag, gathered)
    return gathered(call)
  }
}

const tagOf = (key = ''): string => key.slice(0, key.indexOf('}') + 1)

function define(redis: Redis, name: string, lua: string): Call {
  const command = `cofferdamAdmission_${name}`
  redis.defineCommand(command, { lua })
  const call: unknown = Reflect.get(redis, command)
  if (typeof call !== 'function') throw new CofferdamError('internal', `ioredis did not define ${command}`)
  return async ({ keys, args }) => Reflect.apply(call, redis, [[keys.length, ...keys, ...args]])
}

function readReply(name: ScriptName, reply: unknown): Reply {
  if (Array.isArray(reply) && typeof reply[0] === 'string') {
    const [code, ...rest] = reply as [string, ...unknown[]]
    if (rest.every((item): item is string | number => typeof item === 'string' || typeof item === 'number'))
      return { code, rest }
  }
  throw new CofferdamError('internal', `script ${name} answered what it never answers`, { details: { name } })
}

/** The number at a place of a reply; throws when there is none, so that a changed script cannot pass silently. */
export function numberAt(reply: Reply, index: number): number {
  const value = reply.rest[index]
  if (typeof value === 'number') return value
  throw new CofferdamError('internal', `reply ${reply.code} has no number at ${index}`)
}

/** The text at a place of a reply; throws when there is none. */
export function textAt(reply: Reply, index: number): string {
  const value = reply.rest[index]
  if (typeof value === 'string') return value
  throw new CofferdamError('internal', `reply ${reply.code} has no text at ${index}`)
}
