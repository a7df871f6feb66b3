/**
 * Skills (SDK resources/beta/skills/versions.ts) and memories (resources/beta/memory-stores/memories.ts). An
 * item's token reaches what is attached to its session. The environment key is refused by memory stores:
 * "the memory endpoints reject the environment key" (lib/environments/worker.ts).
 */
import type {
  BetaManagedAgentsDeletedMemory,
  BetaManagedAgentsMemory,
  BetaManagedAgentsMemoryListItem,
} from '@anthropic-ai/sdk/resources/beta/memory-stores/memories'
import type { BetaSkillVersion } from '@anthropic-ai/sdk/resources/beta/skills/versions'
import { z } from 'zod'
import { seen, type MemoryStore } from './memory-store.ts'
import { pageOf, pageQuery } from './paging.ts'
import { json, type Call, type Route } from './router.ts'
import type { Session } from './session.ts'
import { checked, forbidden, notFound } from './wire-errors.ts'

const VERSION = '/v1/skills/:skillId/versions/:version'
const MEMORIES = '/v1/memory_stores/:storeId/memories'
/** "Requests must send `agent-memory-2026-07-22` or `managed-agents-2026-04-01` in this header." */
const betas = ['agent-memory-2026-07-22', 'managed-agents-2026-04-01']
const OF_MEMORY = ['api_key', 'item_secret'] as const

const view = z.enum(['basic', 'full'])
/** "Defaults to `full` on retrieve operations and to `basic` on list, create, and update operations." */
const basicView = z.object({ view: view.default('basic') })
const listQuery = pageQuery(100).extend({
  view: view.default('basic'),
  depth: z.coerce.number().int().min(0).max(1).default(0),
  path_prefix: z.string().startsWith('/').endsWith('/').optional(),
})
const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'expected 64 lowercase hexadecimal characters')
const createBody = z.strictObject({ path: z.string(), content: z.string().nullable() })
const updateBody = z.strictObject({
  path: z.string().nullish(),
  content: z.string().nullish(),
  precondition: z.strictObject({ type: z.literal('content_sha256'), content_sha256: sha256 }).optional(),
})
const deleteQuery = z.object({ expected_content_sha256: sha256.optional() })

/** Throws a 403 if the request carries an item's token whose session does not have the resource. */
function requireAttached({ plane, credential }: Call, has: (session: Session) => boolean): void {
  if (credential.kind !== 'item_secret') return
  const session = plane.sessions.get(credential.sessionId ?? '')
  if (session === undefined || !has(session))
    throw forbidden('it is not attached to the session of this token')
}

function skillOf(call: Call): { id: string; version: string } {
  const { skillId: id = '', version = '' } = call.params
  requireAttached(call, ({ profile }) => profile.skills.some(({ skill_id }) => skill_id === id))
  return { id, version }
}

function storeOf(call: Call): MemoryStore {
  const id = call.params['storeId'] ?? ''
  requireAttached(call, ({ profile }) =>
    profile.resources.some((one) => one.type === 'memory_store' && one.memory_store_id === id),
  )
  const store = call.plane.stores.get(id)
  if (store === undefined) throw notFound('memory store')
  return store
}

const memoryIdOf = ({ params }: Call): string => params['memoryId'] ?? ''

export const RESOURCE_ROUTES: readonly Route[] = [
  {
    name: 'skills.retrieve',
    method: 'GET',
    path: VERSION,
    takes: ['api_key', 'environment_key', 'item_secret'],
    answer(call) {
      const { id, version } = skillOf(call)
      return json<BetaSkillVersion>(call.plane.skills.retrieve(id, version))
    },
  },
  {
    name: 'skills.content',
    method: 'GET',
    path: `${VERSION}/content`,
    takes: ['api_key', 'environment_key', 'item_secret'],
    answer(call) {
      const { id, version } = skillOf(call)
      return { zip: call.plane.skills.content(id, version) }
    },
  },
  {
    name: 'memories.list',
    method: 'GET',
    path: MEMORIES,
    takes: OF_MEMORY,
    betas,
    answer(call) {
      const query = checked(listQuery, call.query)
      const items = storeOf(call).list({ prefix: query.path_prefix, depth: query.depth, view: query.view })
      // "With `full`, a page holds at most 20 items."
      const limit = query.view === 'full' ? Math.min(query.limit, 20) : query.limit
      const { data, next_page } = pageOf(items, ({ path }) => path, { limit, page: query.page })
      return json<{ data: BetaManagedAgentsMemoryListItem[]; next_page: string | null }>({ data, next_page })
    },
  },
  {
    name: 'memories.create',
    method: 'POST',
    path: MEMORIES,
    takes: OF_MEMORY,
    betas,
    answer(call) {
      const memory = storeOf(call).create(checked(createBody, call.body))
      return json<BetaManagedAgentsMemory>(seen(memory, checked(basicView, call.query).view))
    },
  },
  {
    name: 'memories.retrieve',
    method: 'GET',
    path: `${MEMORIES}/:memoryId`,
    takes: OF_MEMORY,
    betas,
    answer(call) {
      const { view: wanted = 'full' } = checked(z.object({ view: view.optional() }), call.query)
      return json<BetaManagedAgentsMemory>(seen(storeOf(call).retrieve(memoryIdOf(call)), wanted))
    },
  },
  {
    name: 'memories.update',
    method: 'POST',
    path: `${MEMORIES}/:memoryId`,
    takes: OF_MEMORY,
    betas,
    answer(call) {
      const { path, content, precondition } = checked(updateBody, call.body)
      const change = { path: path ?? null, content: content ?? null }
      const memory = storeOf(call).update(memoryIdOf(call), {
        ...change,
        ...(precondition === undefined ? {} : { precondition }),
      })
      return json<BetaManagedAgentsMemory>(seen(memory, checked(basicView, call.query).view))
    },
  },
  {
    name: 'memories.delete',
    method: 'DELETE',
    path: `${MEMORIES}/:memoryId`,
    takes: OF_MEMORY,
    betas,
    answer(call) {
      storeOf(call).delete(memoryIdOf(call), checked(deleteQuery, call.query).expected_content_sha256)
      return json<BetaManagedAgentsDeletedMemory>({ id: memoryIdOf(call), type: 'memory_deleted' })
    },
  },
]
