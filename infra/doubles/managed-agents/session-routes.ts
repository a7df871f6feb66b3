/** The endpoints below `/v1/sessions` (SDK resources/beta/sessions/{sessions,events}.ts). */
import type { BetaManagedAgentsSendSessionEvents } from '@anthropic-ai/sdk/resources/beta/sessions/events'
import type {
  BetaManagedAgentsDeletedSession,
  BetaManagedAgentsSession,
} from '@anthropic-ai/sdk/resources/beta/sessions/sessions'
import { z } from 'zod'
import { authorize } from './credentials.ts'
import type { SessionEvent } from './event-log.ts'
import { streamEvents } from './event-stream.ts'
import { STREAM_ROUTE } from './faults.ts'
import { pageOf, pageQuery, type Page } from './paging.ts'
import { initialEvents, postSchema, textOf } from './posted-events.ts'
import { json, type Call, type Route } from './router.ts'
import { sessionOnWire } from './session-wire.ts'
import type { Session } from './session.ts'
import { badRequest, checked, notFound } from './wire-errors.ts'

const SESSIONS = '/v1/sessions'
const ONE = `${SESSIONS}/:sessionId`
/** "Requests must send `managed-agents-2026-04-01` in this header." */
const betas = ['managed-agents-2026-04-01']
const OF_A_WORKER = ['api_key', 'environment_key', 'item_secret'] as const

const memoryResource = z.strictObject({
  type: z.literal('memory_store'),
  memory_store_id: z.string(),
  access: z.enum(['read_write', 'read_only']).nullish(),
  instructions: z.string().max(4096).nullish(),
})

/** Budgets, vaults, files and repositories are refused, because the double could not keep them. */
const createBody = z.strictObject({
  agent: z.union([z.string(), z.object({ id: z.string() })]),
  environment_id: z.string(),
  title: z.string().max(500).nullish(),
  metadata: z
    .record(z.string().max(64), z.string().max(512))
    // "Maximum 16 pairs" (`SessionCreateParams`).
    .refine((pairs) => Object.keys(pairs).length <= 16, 'at most 16 pairs')
    .default({}),
  initial_events: initialEvents.default([]),
  resources: z.array(memoryResource).max(20).default([]),
})

const order = z.enum(['asc', 'desc'])
const time = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text))
const listQuery = pageQuery(1000).extend({
  // "Defaults to `asc` (chronological)."
  order: order.default('asc'),
  types: z.array(z.string()).optional(),
  'created_at[gt]': time.optional(),
  'created_at[gte]': time.optional(),
  'created_at[lt]': time.optional(),
  'created_at[lte]': time.optional(),
})
const sessionsQuery = pageQuery(100).extend({ order: order.default('desc') })

/** The session, if the credential may see it. */
function sessionOf({ plane, params, credential }: Call): Session {
  const session = plane.sessions.get(params['sessionId'] ?? '')
  if (session === undefined || session.isDeleted) throw notFound('session')
  authorize(credential, OF_A_WORKER, { environmentId: session.profile.environmentId })
  return session
}

/** Whether the event is of a wanted type and time. "Compared against the event's `processed_at` value". */
function isWanted(event: SessionEvent, query: z.output<typeof listQuery>): boolean {
  if (query.types !== undefined && !query.types.includes(event.type)) return false
  const atMs = 'processed_at' in event && event.processed_at ? Date.parse(event.processed_at) : 0
  const { 'created_at[gt]': gt, 'created_at[gte]': gte, 'created_at[lt]': lt, 'created_at[lte]': lte } = query
  return (
    (gt === undefined || atMs > gt) &&
    (gte === undefined || atMs >= gte) &&
    (lt === undefined || atMs < lt) &&
    (lte === undefined || atMs <= lte)
  )
}

export const SESSION_ROUTES: readonly Route[] = [
  {
    name: 'sessions.create',
    method: 'POST',
    path: SESSIONS,
    takes: ['api_key'],
    betas,
    answer({ plane, body }) {
      const { agent, environment_id, title, metadata, initial_events, resources } = checked(createBody, body)
      if (!plane.queues.has(environment_id)) throw notFound('environment')
      const attached = resources.map(({ memory_store_id, access }) => {
        const store = plane.stores.get(memory_store_id)
        if (store === undefined) throw badRequest(`no memory store ${memory_store_id}`)
        return plane.resourceOf(store, { access: access ?? 'read_write' })
      })
      const session = plane.createSession({
        environmentId: environment_id,
        agentId: typeof agent === 'string' ? agent : agent.id,
        title: title ?? null,
        metadata,
      })
      session.profile.resources.push(...attached)
      for (const event of initial_events) session.send(textOf(event))
      return json<BetaManagedAgentsSession>(sessionOnWire(session))
    },
  },
  {
    name: 'sessions.list',
    method: 'GET',
    path: SESSIONS,
    takes: ['api_key'],
    betas,
    answer({ plane, query }) {
      const asked = checked(sessionsQuery, query)
      const alive = [...plane.sessions.values()].filter(({ isDeleted }) => !isDeleted)
      const ordered = asked.order === 'asc' ? alive : alive.toReversed()
      const page = pageOf(ordered, ({ id }) => id, asked)
      return json<Page<BetaManagedAgentsSession>>({ ...page, data: page.data.map(sessionOnWire) })
    },
  },
  {
    name: 'sessions.retrieve',
    method: 'GET',
    path: ONE,
    takes: OF_A_WORKER,
    betas,
    answer: (call) => json<BetaManagedAgentsSession>(sessionOnWire(sessionOf(call))),
  },
  {
    name: 'sessions.archive',
    method: 'POST',
    path: `${ONE}/archive`,
    takes: ['api_key'],
    betas,
    answer(call) {
      const session = sessionOf(call)
      session.archive()
      return json<BetaManagedAgentsSession>(sessionOnWire(session))
    },
  },
  {
    name: 'sessions.delete',
    method: 'DELETE',
    path: ONE,
    takes: ['api_key'],
    betas,
    answer(call) {
      const session = sessionOf(call)
      session.delete()
      return json<BetaManagedAgentsDeletedSession>({ id: session.id, type: 'session_deleted' })
    },
  },
  {
    name: 'events.list',
    method: 'GET',
    path: `${ONE}/events`,
    takes: OF_A_WORKER,
    betas,
    answer(call) {
      const query = checked(listQuery, call.query)
      const found = sessionOf(call).events.filter((event) => isWanted(event, query))
      const ordered = query.order === 'asc' ? found : found.toReversed()
      const { data, next_page } = pageOf(ordered, ({ id }) => id, query)
      return json<{ data: SessionEvent[]; next_page: string | null }>({ data, next_page })
    },
  },
  {
    name: 'events.send',
    method: 'POST',
    path: `${ONE}/events`,
    takes: OF_A_WORKER,
    betas,
    answer(call) {
      const session = sessionOf(call)
      const data = session.post(checked(postSchema, call.body).events)
      return json<BetaManagedAgentsSendSessionEvents>({ data })
    },
  },
  {
    name: STREAM_ROUTE,
    method: 'GET',
    path: `${ONE}/events/stream`,
    takes: OF_A_WORKER,
    betas,
    answer(call) {
      const session = sessionOf(call)
      const { ping_ms: pingMs } = call.plane.settings
      return { stream: (response, faults) => streamEvents(session, response, { faults, pingMs }) }
    },
  },
]
