/**
 * The Lua scripts as typed calls: EVALSHA through ioredis, which loads a script again after a server restart.
 * Each call has a time limit, because a connection with an offline queue waits for ever.
 */
import { CofferdamError } from '@cofferdam/contract'
import { boundedAnswer } from '@cofferdam/queue/redis-calls'
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
   * Runs a script. Returns the code, which is the reply's first item, and the other items. After a timeout,
   * `late` gets the reply when it arrives. After a failure, `late` gets null. Throws
   * CofferdamError('queue_unavailable') when Redis fails or is too slow, and 'internal' for a reply of
   * another form.
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

/**
 * Scripts that take the server's run ID as an argument. lua/server-run.lua is put in front of them to check
 * it.
 */
const OF_A_RUN: ReadonlySet<ScriptName> = new Set(['admit', 'recharge', 'usage', 'seed'])
type Call = (keys: readonly string[], args: readonly (string | number)[]) => Promise<unknown>

/** Defines the scripts on the connection. Repeating it is harmless. */
export function defineScripts(redis: Redis, timeoutMs: number): Scripts {
  const calls = new Map(NAMES.map((name) => [name, define(redis, name)]))
  return {
    async run(name, keys, args, late) {
      const call = calls.get(name)
      if (call === undefined) throw new CofferdamError('internal', `no script named ${name}`)
      const pending = call(keys, args).then((reply) => readReply(name, reply))
      return boundedAnswer(pending, timeoutMs, `admission script ${name}`, late)
    },
  }
}

const readLua = (name: string): string => readFileSync(new URL(`../lua/${name}.lua`, import.meta.url), 'utf8')

function define(redis: Redis, name: ScriptName): Call {
  const command = `cofferdamAdmission_${name}`
  redis.defineCommand(command, { lua: (OF_A_RUN.has(name) ? readLua('server-run') : '') + readLua(name) })
  const call: unknown = Reflect.get(redis, command)
  if (typeof call !== 'function') throw new CofferdamError('internal', `ioredis did not define ${command}`)
  return async (keys, args) => Reflect.apply(call, redis, [[keys.length, ...keys, ...args]])
}

function readReply(name: ScriptName, reply: unknown): Reply {
  if (Array.isArray(reply) && typeof reply[0] === 'string') {
    const [code, ...rest] = reply as [string, ...unknown[]]
    if (rest.every((item): item is string | number => typeof item === 'string' || typeof item === 'number'))
      return { code, rest }
  }
  throw new CofferdamError('internal', `script ${name} gave an unexpected reply`, { details: { name } })
}

/** The number at an index of a reply. Throws when there is none, so that a changed script is noticed. */
export function numberAt(reply: Reply, index: number): number {
  const value = reply.rest[index]
  if (typeof value === 'number') return value
  throw new CofferdamError('internal', `reply ${reply.code} has no number at ${index}`)
}

/** The text at an index of a reply. Throws when there is none. */
export function textAt(reply: Reply, index: number): string {
  const value = reply.rest[index]
  if (typeof value === 'string') return value
  throw new CofferdamError('internal', `reply ${reply.code} has no text at ${index}`)
}
