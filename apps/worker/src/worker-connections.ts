/** A worker's three connections to Redis: each role fails in its own way when Redis is away (connect.ts of the queue). */
import { connectRedis } from '@cofferdam/queue'
import type { Redis } from 'ioredis'

export interface WorkerConnections {
  /** Waits for a Redis that restarts: an execution in hand is not refused for a blink. Admission gives up by itself. */
  redis: Redis
  subscriber: Redis
  /** Fails fast: upkeep is repeated anyway, and must not keep a stopping worker waiting. */
  control: Redis
  /** Commands that wait for an answer fail now. */
  cut(this: void): void
}

/** Opens them; `owned` closes them. */
export function openConnections(redisUrl: string, owned: AsyncDisposableStack): WorkerConnections {
  const connect = (role: 'worker' | 'producer' | 'subscriber'): Redis =>
    owned.adopt(connectRedis(redisUrl, role), (connection) => connection.disconnect())
  const all = {
    redis: connect('worker'),
    subscriber: connect('subscriber'),
    control: connect('producer'),
  }
  return {
    ...all,
    cut() {
      for (const connection of Object.values(all)) connection.disconnect()
    },
  }
}
