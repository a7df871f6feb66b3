/**
 * GET /healthz (the process answers), /readyz (Redis answers, and everything can be stored) and /metrics.
 *
 * Metrics reveal the load of tenants. A caller on this machine that connects directly may read them
 * (loopback address, loopback name in Host, no forwarding header). Anybody else needs an admin key. The
 * Host check keeps out a web page that rebinds its DNS name to 127.0.0.1.
 */
import { CofferdamError, inTime, isCofferdamError } from '@cofferdam/contract'
import type { FastifyRequest } from 'fastify'
import type { Redis } from 'ioredis'
import { z } from 'zod'
import { identify } from '../authenticate.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES } from '../wire-schemas.ts'

/** A slower probe counts as failed: orchestrators commonly give up after one second. */
const PROBE_MS = 1000

const checkSchema = z.strictObject({
  redis: z.literal('ok').meta({
    description: 'Redis answers. With several cells, at least one of them does.',
  }),
  postgres: z.literal('ok').meta({ description: 'Postgres answers, and its schema fits.' }),
})

export function health(app: App, context: RouteContext): void {
  app.get(
    '/healthz',
    {
      schema: {
        operationId: 'healthz',
        tags: ['health'],
        summary: 'The process answers.',
        security: [],
        response: {
          200: z.strictObject({ status: z.literal('ok').meta({ description: 'The process answers.' }) }),
          ...FAILURES,
        },
      },
    },
    async () => ({ status: 'ok' as const }),
  )

  app.get(
    '/readyz',
    {
      schema: {
        operationId: 'readyz',
        tags: ['health'],
        summary:
          'Redis and Postgres answer this process, the schema fits, database and blob folder accept ' +
          'writes, and it is not draining.',
        security: [],
        response: {
          200: z.strictObject({
            status: z.literal('ready').meta({ description: 'It takes requests.' }),
            checks: checkSchema.meta({ description: 'What was checked.' }),
          }),
          ...FAILURES,
        },
      },
    },
    async () => {
      const [redis, postgres] = await Promise.all([
        failureOf(anyAnswers(context.cells.all)),
        failureOf(context.store.check()),
      ])
      const needsSetUp = isCofferdamError(postgres) && postgres.code === 'config_invalid'
      const checks = {
        redis: redis === null ? 'ok' : 'away',
        postgres: postgres === null ? 'ok' : needsSetUp ? 'refused' : 'away',
      }
      if (redis !== null) throw new CofferdamError('queue_unavailable', undefined, { details: { checks } })
      // The message names the cause: schema, privileges, read-only database or blob folder.
      const why = isCofferdamError(postgres) ? postgres.message : undefined
      if (postgres !== null) throw new CofferdamError('store_unavailable', why, { details: { checks } })
      return { status: 'ready' as const, checks: { redis: 'ok' as const, postgres: 'ok' as const } }
    },
  )

  app.get(
    '/metrics',
    {
      schema: {
        operationId: 'metrics',
        tags: ['health'],
        summary: 'Prometheus metrics.',
        description:
          'Needs an admin key, unless the caller is on this machine and no proxy forwards the call.',
        security: [{}, { apiKey: [] }],
        response: {
          200: {
            description: 'Prometheus text, or OpenMetrics with exemplars if `Accept` names it.',
            content: {
              'text/plain': { schema: z.string() },
              'application/openmetrics-text': { schema: z.string() },
            },
          },
          ...FAILURES,
        },
      },
    },
    async (request, reply) => {
      if (!isLocal(request) && (await identify(request, context.keys)).scope !== 'admin') {
        throw new CofferdamError('forbidden', 'Only an admin key may read metrics from another machine.')
      }
      const { contentType, body } = await context.metrics(request.headers.accept)
      return reply.type(contentType).send(body)
    },
  )
}

/**
 * One cell that answers is enough. Otherwise one dead cell would also cut off the tenants of the live cells.
 */
const anyAnswers = (cells: ReadonlyMap<number, Redis>): Promise<unknown> =>
  Promise.any([...cells.values()].map((redis) => redis.ping()))

/** Returns null when the probe succeeds in time, else its error. */
async function failureOf(probe: Promise<unknown>): Promise<unknown> {
  try {
    await inTime(probe, PROBE_MS, () => new Error('late'))
    return null
  } catch (error) {
    return error
  }
}

function isLocal(request: FastifyRequest): boolean {
  const { forwarded, 'x-forwarded-for': forwardedFor } = request.headers
  if (forwarded !== undefined || forwardedFor !== undefined) return false
  const address = request.socket.remoteAddress ?? ''
  const isLoopback = /^(127\.|::1$|::ffff:127\.)/.test(address)
  return isLoopback && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/i.test(request.headers.host ?? '')
}
