/**
 * Calls the Lua scripts, each with a deadline after which it throws `queue_unavailable`. A call may still run
 * after its deadline. That is safe: a late claim is released when its answer arrives, and a late announcement
 * is shown for a minute at most. Every other script changes nothing if the fence or the state that it expects
 * has changed.
 */
import { readFileSync } from 'node:fs'
import { CofferdamError } from '@cofferdam/contract'
import { boundedAnswer } from '@cofferdam/queue/redis-calls'
import type { Redis } from 'ioredis'

const NAMES = [
  'claim',
  'renew',
  'restore',
  'keep',
  'forget',
  'release',
  'announce',
  'prune',
  'move-due',
] as const
export type ScriptName = (typeof NAMES)[number]

/** A code and the values that the script's header describes. */
export type Reply = [code: string, ...rest: (string | number)[]]

export interface Calls {
  script(
    name: ScriptName,
    keys: readonly string[],
    args: readonly (string | number)[],
    /** Called with an answer that arrives after the deadline. */
    late?: (reply: Reply) => void,
  ): Promise<Reply>
  /** Gives a plain Redis command the same deadline. */
  bounded<T>(pending: Promise<T>, what: string): Promise<T>
}

/** Defines the scripts on the connection. May be repeated. */
export function createCalls(redis: Redis, timeoutMs: number): Calls {
  const commands = new Map(NAMES.map((name) => [name, define(redis, name)]))
  return {
    async script(name, scriptKeys, args, late) {
      const command = commands.get(name)
      if (command === undefined) throw new CofferdamError('internal', `no script named ${name}`)
      const pending = command([scriptKeys.length, ...scriptKeys, ...args])
      return await boundedAnswer(pending, timeoutMs, `session script ${name}`, (reply) => {
        if (reply !== null) late?.(reply)
      })
    },
    bounded: async (pending, what) => await boundedAnswer(pending, timeoutMs, what),
  }
}

function define(redis: Redis, name: ScriptName): (args: (string | number)[]) => Promise<Reply> {
  const command = `cofferdamSessions_${name}`
  redis.defineCommand(command, {
    lua: readFileSync(new URL(`../lua/${name}.lua`, import.meta.url), 'utf8'),
  })
  const call: unknown = Reflect.get(redis, command)
  if (typeof call !== 'function') throw new CofferdamError('internal', `ioredis did not define ${command}`)
  return async (args) => {
    const reply: unknown = await Reflect.apply(call, redis, args)
    if (Array.isArray(reply) && typeof reply[0] === 'string') return reply as Reply
    throw new CofferdamError('internal', `script ${name} returned an unknown reply`)
  }
}
