/** What the routes need from the HTTP server that mounts them. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { PoolProvisioner } from '@cofferdam/backends'
import type { Accepted, errorBodySchema, ExecutionRequest, ExecutionResult } from '@cofferdam/contract'
import type { Store } from '@cofferdam/store'
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  RawServerDefault,
} from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { Redis } from 'ioredis'
import type { z } from 'zod'
import type { SandboxConfigEvent, SandboxConfigs } from './settings-table.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Admin keys only. The server that mounts the routes enforces it. */
    admin?: boolean
  }
}

/** fastify whose handlers are typed by their zod schemas. */
export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>

type Failure = { description: string; content: { 'application/json': { schema: typeof errorBodySchema } } }
type EventType = SandboxConfigEvent['event_type']
type List = { list: string; tenantId: null }

/** Schemas that all routes of the server share. */
interface WireSchemas {
  failures: Readonly<Record<'4xx' | '5xx', Failure>>
  limitQuery: z.ZodType<number, string>
  cursorQuery: z.ZodType<string, string>
  nextCursorSchema: z.ZodType<string | null, string | null>
  /** Schema of a recorded change. `eventType` is the schema of its `event_type`. */
  changeEventSchema(
    this: void,
    eventType: z.ZodType<EventType, EventType>,
  ): z.ZodType<SandboxConfigEvent, SandboxConfigEvent>
  /** Rows of a page when the caller names no limit. */
  defaultPage: number
}

/** What the HTTP server provides. */
export interface RouteDeps {
  store: Pick<Store, 'fleetTables' | 'tenants'>
  /** A connection to the Redis that serves a tenant. */
  redisOf(this: void, tenantId: string): Promise<Redis>
  /** Makes and removes session pools. Undefined when no subscription is configured. */
  pools?: PoolProvisioner
  /** Aborts when the server begins to close. */
  draining: AbortSignal
  /** The author of a change, for its event. */
  actorOf(this: void, request: FastifyRequest): string
  /** The caller's W3C trace context, if it is valid. */
  traceparentOf(this: void, request: FastifyRequest): string | undefined
  /** Enqueues an execution and waits up to `waitMs` for its result. 202 when none came in time. */
  run(
    request: FastifyRequest,
    reply: FastifyReply,
    execution: ExecutionRequest,
    waitMs: number,
  ): Promise<{ status: 200; body: ExecutionResult } | { status: 202; body: Accepted }>
  /** The last report of every worker about each of its backends. */
  backendReports(
    this: void,
  ): Promise<readonly { name: string; workers: readonly { report: { probe: unknown } }[] }[]>
  cursors: {
    open(of: List, cursor: string | undefined): Promise<string | undefined>
    seal(of: List, position: string | null): Promise<string | null>
  }
  wire: WireSchemas
}

/** What each route gets. */
export interface RouteParts extends RouteDeps {
  configs: SandboxConfigs
}
