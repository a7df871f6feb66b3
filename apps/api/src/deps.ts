/** What the HTTP server needs; made once in run-api.ts. */
import type { Admission } from '@cofferdam/admission'
import type { PoolProvisioner } from '@cofferdam/backends'
import type { Producer } from '@cofferdam/queue'
import type { Store } from '@cofferdam/store'
import type { FastifyBaseLogger } from 'fastify'
import type { Redis } from 'ioredis'
import type { LeastRate } from './receive-body.ts'

/**
 * Bounds of one process. Of what is held at once, one tenant (or admin key) gets half at most: see shares.ts.
 */
export interface ApiLimits {
  /** Event streams at once: each holds a socket and a blocking read of Redis. */
  eventStreams: number
  /** Requests that wait for an ending at once; beyond it a request is answered 202 as if it had not asked to wait. */
  waits: number
  /** Bytes of request bodies in memory at once: eighteen of the largest, or tens of thousands of ordinary ones. */
  bodyBytes: number
  /** The least that has to arrive of a body while it comes. */
  bodyRate: LeastRate
  /**
   * Audit exports at once: each reads page after page, on the 6 connections that all requests of tenants
   * share.
   */
  exports: number
  /** Between comments on a silent event stream: below the 60 s after which proxies commonly cut. */
  heartbeatMs: number
}

export const DEFAULT_API_LIMITS: ApiLimits = {
  eventStreams: 512,
  waits: 4096,
  bodyBytes: 512 * 1024 * 1024,
  // 240 bytes a second, as Kestrel asks of bodies: every line that works gives more.
  bodyRate: { bytes: 1200, windowMs: 5000 },
  exports: 4,
  heartbeatMs: 15_000,
}

export interface ApiDeps {
  producer: Producer
  store: Store
  admission: Admission
  /** For cached policies, the workers' backend reports, and the readiness check. Not blocked by any subscription. */
  redis: Redis
  /** Makes and removes session pools at Azure; left out where nothing says in whose subscription. */
  pools?: PoolProvisioner
  /** The Prometheus text of this process. */
  metrics(accept: string | undefined): Promise<{ contentType: string; body: string }>
  logger?: FastifyBaseLogger
  limits?: Partial<ApiLimits>
  /** Milliseconds since the epoch; tests pass their own. */
  now?: () => number
}
