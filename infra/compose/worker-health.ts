/**
 * Health check of the worker container: whether a worker of this host name's container beats in Redis. Exit status 0
 * when the fleet has at least one living worker, 1 otherwise; a hung worker stops beating and is swept by the others.
 */
import { connectRedis, createProducer } from '@cofferdam/queue'

const redis = connectRedis(process.env['REDIS_URL'] ?? '', 'producer')
const subscriber = connectRedis(process.env['REDIS_URL'] ?? '', 'subscriber')
try {
  const producer = createProducer({ redis, subscriber })
  const { workers } = await producer.stats()
  process.exitCode = workers.length > 0 ? 0 : 1
} finally {
  redis.disconnect()
  subscriber.disconnect()
}
