/** What every route gets, beside the fastify instance typed for zod. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { SessionRegistry } from '@cofferdam/contract'
import type { Schedules } from '@cofferdam/routines'
import type { ApiDeps, ApiLimits } from './deps.ts'
import type { Budgets } from './budgets.ts'
import type { Cursors } from './cursors.ts'
import type { KeyCache } from './key-cache.ts'
import type { BodyReader } from './receive-body.ts'
import type { Shares } from './shares.ts'

/** fastify whose handlers are typed by their zod schemas. */
export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>

export interface RouteContext extends ApiDeps {
  limits: ApiLimits
  now: () => number
  keys: KeyCache
  /** The clock of routines. */
  schedules: Schedules
  /** Aborts when the server begins to close: waits and streams end. */
  draining: AbortSignal
  /** What is left of caps, for headers. */
  budgets: Budgets
  /** Of every list. */
  cursors: Cursors
  /** Sessions of the fleet; the API only looks. */
  sessions: Pick<SessionRegistry, 'find' | 'list'>
  /** For parsers of bodies that are no JSON. */
  readBody: BodyReader
  streams: Shares
  waits: Shares
  exports: Shares
}
