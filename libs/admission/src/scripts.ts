/**
 * The Lua scripts as typed calls: EVALSHA through ioredis, which loads a script again after a server restart.
 * Every key is declared. Each call is bounded in time, because a connection with an offline queue waits for ever.
 */
import { CofferdamError, boundedAnswer } from '@cofferdam/contract'
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

/** Defines the scripts on the connection (again is harmless). */
export function defineScripts(redis: Redis, timeoutMs: number): Scripts {
  const commands = new Map(NAMES.map((name) => [name, define(redis, name)]))
  return {
    async run(name, keys, args, late) {
      const command = commands.get(name)
      if (command === undefined) throw new CofferdamError('internal', `no script named ${name}`)
      const pending = command([keys.length, ...keys, ...args])
      return boundedAnswer(pending, timeoutMs, `admission script ${name}`, late)
    },
  }
}

function define(redis: Redis, name: ScriptName): (args: (string | number)[]) => Promise<Reply> {
  const command = `cofferdamAdmission_${name}`
  redis.defineCommand(command, {
    lua: readFileSync(new URL(`../lua/${name}.lua`, import.meta.url), 'utf8'),
  })
  const call: unknown = Reflect.get(redis, command)
  if (typeof call !== 'function') throw new CofferdamError('internal', `ioredis did not define ${command}`)
  return async (args) => {
    const reply: unknown = await Reflect.apply(call, redis, args)
    return readReply(name, reply)
  }
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
