/** What the HTTP server needs, and what every route gets. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { PoolProvisioner } from '@cofferdam/backends'
import type { SessionRegistry } from '@cofferdam/contract'
import type { Producer } from '@cofferdam/queue'
import type { Store } from '@cofferdam/store'
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { Redis } from 'ioredis'
import type { CapsOfTenants, Cells, RoutineClock } from './cells.ts'
import type { Cursors } from './cursors.ts'
import type { SignIns } from './dashboard/sign-ins.ts'
import type { KeyCache } from './key-cache.ts'
import type { OAuthSettings } from './oauth/oauth-config.ts'
import type { Budgets } from './rate-limit-headers.ts'
import type { BodyReader, LeastRate } from './receive-body.ts'
import type { Shares } from './shares.ts'

/** Bounds of one process. One tenant (or admin key) gets at most half of each. See shares.ts. */
export interface ApiLimits {
  /** Event streams at once: each uses a socket and a blocking read of Redis. */
  eventStreams: number
  /** Requests that wait for an ending at once. Further requests get 202, as if they had not asked to wait. */
  waits: number
  /** Bytes of request bodies in memory: eighteen of the largest, or tens of thousands of ordinary ones. */
  bodyBytes: number
  /** The minimum rate of a body. */
  bodyRate: LeastRate
  /** Audit exports at once. Each reads page after page on the 6 connections that all tenants share. */
  exports: number
  /** Time between comments on a silent event stream. Proxies commonly close one after 60 s of silence. */
  heartbeatMs: number
}

export const DEFAULT_API_LIMITS: ApiLimits = {
  eventStreams: 512,
  waits: 4096,
  bodyBytes: 512 * 1024 * 1024,
  // 240 bytes a second, as Kestrel requires. Every usable network connection is faster.
  bodyRate: { bytes: 1200, windowMs: 5000 },
  exports: 4,
  heartbeatMs: 15_000,
}

/** What `createApi` needs. Made once, in run-api.ts. */
export interface ApiDeps {
  producer: Producer
  store: Store
  admission: CapsOfTenants
  /**
   * The connection to the cell that REDIS_URL names. Stores sign-ins and MCP calls. It is never put into
   * subscriber mode.
   */
  redis: Redis
  /** All cells that this process serves. Default: that of `redis`. */
  cells?: Cells
  /** Creates and removes session pools at Azure. Absent when no subscription is configured. */
  pools?: PoolProvisioner
  /**
   * Where clients reach the API. Undefined: /mcp accepts only loopback names on a loopback connection, and
   * any name on others.
   */
  publicUrl?: string | undefined
  /** The build of the dashboard. Default: that of this tree. */
  dashboardDir?: string | undefined
  /**
   * Where browsers find Jaeger, without a slash at the end. Undefined: the dashboard has no links to traces.
   */
  jaegerUrl?: string | undefined
  /** The issuer whose access tokens /mcp accepts. Undefined: API keys only. */
  oauth?: OAuthSettings | undefined
  /** The Prometheus text of this process. */
  metrics(accept: string | undefined): Promise<{ contentType: string; body: string }>
  logger?: FastifyBaseLogger
  limits?: Partial<ApiLimits>
  /** Milliseconds since the epoch. Tests pass their own. */
  now?: () => number
}

/** fastify whose handlers are typed by their zod schemas. */
export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>

/** What every route gets. */
export interface RouteContext extends ApiDeps {
  cells: Cells
  limits: ApiLimits
  now: () => number
  keys: KeyCache
  /** Browsers that are signed in to the dashboard. */
  signIns: SignIns
  /** Schedules of routines. */
  schedules: RoutineClock
  /** Aborts when the server begins to close, which ends waits and streams. */
  draining: AbortSignal
  /** What is left of the caps, for headers. */
  budgets: Budgets
  /** Cursors of every list. */
  cursors: Cursors
  /** Sessions of the fleet. The API only reads them. */
  sessions: Pick<SessionRegistry, 'find' | 'list'>
  /** For parsers of bodies that are not JSON. */
  readBody: BodyReader
  /** Bytes in memory of request bodies, and of kept requests that are run again. */
  bodies: Shares
  streams: Shares
  waits: Shares
  exports: Shares
}
