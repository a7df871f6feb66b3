/**
 * A cell is one whole queue: a Redis and the tenants that live in it. A fleet has one, or several that share
 * Postgres and the API. Each connection belongs to a cell (connectRedis), and whatever is read or written
 * through it has that cell's hash tag. So a process that is given the Redis of another cell finds nothing
 * there, and several cells may share one Redis Cluster.
 *
 * Cell 0 has the tag that every fleet had before there were cells.
 */
import type { Redis } from 'ioredis'
import { queueChannels, queueKeys, type QueueChannels, type QueueKeys } from './keys.ts'

export interface Cell {
  /** Part of the ids of its executions (contract, ids.ts). */
  readonly number: number
  /** Hash tag of all of its keys that belong to no tenant. */
  readonly tag: string
  readonly keys: QueueKeys
  readonly channels: QueueChannels
}

/** At most as many as an id can name (contract CELL_MAX). */
const cells = new Map<number, Cell>()
const ofConnection = new WeakMap<Redis, Cell>()

/** The cell of a number. The same number gives the same object. */
export function cellOfNumber(number: number): Cell {
  const known = cells.get(number)
  if (known !== undefined) return known
  const tag = number === 0 ? '{cofferdam}' : `{cofferdam.${number}}`
  const at = (name: string): string => `${tag}:${name}`
  const cell = { number, tag, keys: queueKeys(at), channels: queueChannels(at) }
  cells.set(number, cell)
  return cell
}

/** The cell of a connection: cell 0, unless `bindToCell` said otherwise. */
export const cellOf = (redis: Redis): Cell => ofConnection.get(redis) ?? cellOfNumber(0)

export const keysOf = (redis: Redis): QueueKeys => cellOf(redis).keys

export const channelsOf = (redis: Redis): QueueChannels => cellOf(redis).channels

/** Binds a connection to a cell, before its first use. */
export function bindToCell(redis: Redis, cell: Cell): Redis {
  ofConnection.set(redis, cell)
  return redis
}
