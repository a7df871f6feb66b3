/** The client over Redis: validates a request and puts it into the queue itself. */
import { CofferdamError, executionRequestSchema, parse } from '@cofferdam/contract'
import { connectRedis, createProducer } from '@cofferdam/queue'
import { DEFAULT_WAIT_MS, type Client } from './client.ts'

export interface QueueClientOptions {
  /** `redis://`, `rediss://` or `unix:///path/to/redis.sock`. */
  redisUrl: string
  /** Number of the cell that this Redis has. Default 0, as in a fleet of one cell. */
  cell?: number
}

export function createQueueClient({ redisUrl, cell = 0 }: QueueClientOptions): Client {
  const redis = connectRedis(redisUrl, 'producer', cell)
  const subscriber = connectRedis(redisUrl, 'subscriber', cell)
  const producer = createProducer({ redis, subscriber })

  const close = async (): Promise<void> => {
    if (redis.status === 'end') return
    await producer[Symbol.asyncDispose]()
    redis.disconnect()
    subscriber.disconnect()
  }

  return {
    enqueue: async (input, { awaitReply = false } = {}) =>
      producer.put(parse(executionRequestSchema, input), { awaitReply }),
    async run(input, { timeoutMs = DEFAULT_WAIT_MS, signal } = {}) {
      signal?.throwIfAborted()
      const { execution_id } = await producer.put(parse(executionRequestSchema, input), { awaitReply: true })
      const result = await producer.wait(execution_id, {
        timeoutMs,
        ...(signal === undefined ? {} : { signal }),
      })
      if (result === null) throw new CofferdamError('wait_timeout', undefined, { details: { execution_id } })
      return result
    },
    wait: (id, { timeoutMs = DEFAULT_WAIT_MS, signal } = {}) =>
      producer.wait(id, { timeoutMs, ...(signal === undefined ? {} : { signal }) }),
    stream: (id, { after, signal = new AbortController().signal } = {}) =>
      producer.events(id, { signal, ...(after === undefined ? {} : { after }) }),
    get: (id) => producer.get(id),
    cancel: (id, reason) => producer.cancel(id, reason),
    close,
    [Symbol.asyncDispose]: close,
  }
}
