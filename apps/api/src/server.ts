/**
 * The HTTP server. A request passes these steps:
 *
 *   trace ID, security headers ─► 404, 405 ─► key ─► body ─► JSON ─► zod ─► handler
 *
 * The answer to a failure of any step has the error shape of the contract. Everything up to the key is
 * decided before the body is read.
 */
import cookie from '@fastify/cookie'
import { BOUNDS, CofferdamError, parse, StopReason } from '@cofferdam/contract'
import { fastify, type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { z } from 'zod'
import { clockByCell, oneCell, sessionsByCell } from './cells.ts'
import { createCursors } from './cursors.ts'
import { addPageFiles, asksForPage } from './dashboard/page-files.ts'
import { createSignIns } from './dashboard/sign-ins.ts'
import {
  answerClientError,
  answerOddRequests,
  installErrorResponses,
  noSuchPath,
  refuseOtherMethods,
  SECURITY_HEADERS,
  sendError,
} from './error-response.ts'
import { acceptJsonBodies } from './json-body.ts'
import { createGuessBrake } from './guess-brake.ts'
import { createKeyCache } from './key-cache.ts'
import type { BuildServer } from './mcp/endpoint.ts'
import { installOpenApi, PLUGIN_TIMEOUT_MS } from './openapi.ts'
import { createBudgets } from './rate-limit-headers.ts'
import { createBodyReader, limitBodies } from './receive-body.ts'
import { type ApiDeps, type App, DEFAULT_API_LIMITS, type RouteContext } from './route-context.ts'
import { addRoutes } from './routes/index.ts'
import { createShares } from './shares.ts'
import { newTraceId, readTraceparent, traceIdOf } from './trace-id.ts'

/** Version of the HTTP API, as the OpenAPI document states it. */
export const API_VERSION = '1.0.0'

/** What fastify calls the parts of a request, and what error messages call them. */
const PARTS: Record<string, string> = {
  body: 'body',
  params: 'path',
  querystring: 'query',
  headers: 'header',
}

/**
 * Builds the server. The caller makes it listen. Closing it first ends waits and streams. `buildMcp` replaces
 * the tools of /mcp, for tests of its transport.
 */
export async function createApi(deps: ApiDeps, buildMcp?: BuildServer): Promise<FastifyInstance> {
  const draining = new AbortController()
  const app = buildServer(deps.logger)
  const limits = { ...DEFAULT_API_LIMITS, ...deps.limits }
  const now = deps.now ?? Date.now
  const cells = deps.cells ?? oneCell(deps.redis)
  const schedules = clockByCell(cells, (error) => deps.logger?.warn({ err: error }, 'the clock of routines'))
  app.addHook('onClose', () => schedules[Symbol.asyncDispose]())
  const keys = createKeyCache({ keys: deps.store.keys, brake: createGuessBrake(now), now })
  const context: RouteContext = {
    ...deps,
    cells,
    limits,
    now,
    draining: draining.signal,
    schedules,
    keys,
    signIns: createSignIns({ redis: deps.redis, keys, publicUrl: deps.publicUrl, now }),
    cursors: createCursors(() => deps.store.cursorKey()),
    budgets: createBudgets({ admission: deps.admission, now }),
    sessions: sessionsByCell(cells),
    readBody: createBodyReader(limits.bodyRate),
    bodies: createShares(limits.bodyBytes),
    streams: createShares(limits.eventStreams, 'event streams'),
    waits: createShares(limits.waits, 'waiting requests'),
    exports: createShares(limits.exports, 'audit exports'),
  }
  app.addHook('preClose', async () => draining.abort(new StopReason('drain')))
  traceAndProtect(app, draining.signal)
  answerOddRequests(app)
  limitBodies(app, context.bodies)
  acceptJsonBodies(app, context.readBody)
  // Parses cookies only when code calls `parseCookie`, because most callers have a key and no cookie.
  await app.register(cookie, { hook: false })
  installErrorResponses(app, (request, reply) => (asksForPage(request) ? sendPage(reply) : null))
  await installOpenApi(app, API_VERSION)
  const otherMethods = refuseOtherMethods(app)
  const sendPage = await addPageFiles(app, deps.dashboardDir)
  addRoutes(app.withTypeProvider<ZodTypeProvider>() as App, context, buildMcp)
  await app.after()
  otherMethods.close()
  return app
}

function buildServer(logger: FastifyBaseLogger | undefined): FastifyInstance {
  const app = fastify({
    ...(logger === undefined ? {} : { loggerInstance: logger }),
    bodyLimit: BOUNDS.requestBodyBytes,
    // fastify's request log would contain URLs with cursors, so we log requests ourselves. While the server
    // closes, we send our own errors instead of fastify's 503.
    logController: new LogController({ disableRequestLogging: true }),
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    pluginTimeout: PLUGIN_TIMEOUT_MS,
    // Limits how long a slow sender can occupy a socket.
    requestTimeout: 120_000,
    // We answer a missing Host header ourselves, in our error shape.
    http: { requireHostHeader: false },
    routerOptions: { maxParamLength: BOUNDS.pathLength * 3 },
    clientErrorHandler: answerClientError,
    frameworkErrors: (error, request, reply) => {
      request.traceId = newTraceId()
      void reply.headers({ ...SECURITY_HEADERS, 'x-trace-id': request.traceId })
      sendError(error, request, reply)
    },
  })
  app.setValidatorCompiler(({ schema, httpPart }) => (data: unknown) => {
    try {
      // fastify passes null for an absent body.
      const input = httpPart === 'body' && data === null ? undefined : data
      return { value: parse(schema as z.ZodType, input, PARTS[httpPart ?? ''] ?? 'request') }
    } catch (error) {
      return { error: error as Error }
    }
  })
  // Responses are typed. Validating them at run time would turn a harmless surplus field into a 500.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data))
  return app
}

/** The first hooks: every response has a trace ID and the security headers. */
function traceAndProtect(app: FastifyInstance, draining: AbortSignal): void {
  app.decorateRequest('traceId', '')
  app.decorateRequest('caller', null)
  app.addHook('onRequest', async (request, reply) => {
    const traceparent = readTraceparent(request.headers.traceparent)
    request.traceId = traceparent === null ? newTraceId() : traceIdOf(traceparent)
    void reply.headers({ ...SECURITY_HEADERS, 'x-trace-id': request.traceId })
    if (draining.aborted) {
      void reply.header('connection', 'close')
      throw new CofferdamError('shutting_down')
    }
    if (request.raw.httpVersion === '1.1' && request.headers.host === undefined)
      throw new CofferdamError('invalid_request', 'The request has no Host header.')
    if (request.is404 && !asksForPage(request)) throw noSuchPath()
  })
  app.addHook('onSend', async (_request, reply) => {
    // An idle connection would delay the end of a closing server.
    if (draining.aborted && !reply.raw.headersSent) void reply.header('connection', 'close')
  })
  app.addHook('onResponse', async (request, reply) => {
    // Traces and audit rows show what was done, and this log shows what was refused. Failures are logged as
    // errors.
    const level = reply.statusCode >= 400 && reply.statusCode < 500 ? 'info' : 'debug'
    request.log[level](
      {
        method: request.method,
        route: request.routeOptions.url ?? null,
        status: reply.statusCode,
        ms: Math.round(reply.elapsedTime),
        key_id: request.caller?.keyId ?? null,
        trace_id: request.traceId,
      },
      'request',
    )
  })
}
