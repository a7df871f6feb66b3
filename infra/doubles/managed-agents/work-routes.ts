/** The endpoints below `/v1/environments/{id}/work` (SDK resources/beta/environments/work.ts). */
import type {
  BetaSelfHostedWork,
  BetaSelfHostedWorkHeartbeatResponse,
  BetaSelfHostedWorkListResponse,
  BetaSelfHostedWorkQueueStats,
} from '@anthropic-ai/sdk/resources/beta/environments/work'
import { z } from 'zod'
import { packSecret } from './credentials.ts'
import { pageOf, pageQuery } from './paging.ts'
import { json, type Call, type Route } from './router.ts'
import { checked, notFound } from './wire-errors.ts'
import type { WorkItem } from './work-item.ts'
import type { WorkQueue } from './work-queue.ts'

const WORK = '/v1/environments/:environmentId/work'

const pollQuery = z.object({
  /** "Must be 1-999 in milliseconds. Defaults to non-blocking". */
  block_ms: z.coerce.number().int().min(1).max(999).optional(),
  reclaim_older_than_ms: z.coerce.number().int().min(0).max(86_400_000).optional(),
})

const heartbeatQuery = z.object({
  desired_ttl_seconds: z.coerce.number().positive().optional(),
  expected_last_heartbeat: z.union([z.literal('NO_HEARTBEAT'), z.iso.datetime()]).optional(),
})

const stopBody = z.strictObject({ force: z.boolean().default(false) }).default({ force: false })

/** A metadata patch: keys of at most 64 characters, values of at most 512, as for sessions. */
const updateBody = z.strictObject({
  metadata: z.record(z.string().min(1).max(64), z.string().max(512).nullable()),
})

const queueOf = ({ plane, params }: Call): WorkQueue => plane.queueOf(params['environmentId'] ?? '')

function itemOf(call: Call): WorkItem {
  const found = queueOf(call).items.find(({ id }) => id === call.params['workId'])
  if (found === undefined) throw notFound('work item')
  return found
}

/** Issues a token for the item that a poll hands out. */
function secretOf({ plane }: Call, item: WorkItem): string | null {
  if (plane.settings.secrets === 'absent') return null
  if (plane.settings.secrets === 'broken') return 'not-base64url-json!'
  const session = item.data.type === 'session' ? { sessionId: item.data.id } : {}
  const bound = { environmentId: item.environmentId, itemId: item.id, ...session }
  return packSecret(plane.keyring.issue({ kind: 'item_secret', ...bound }))
}

export const WORK_ROUTES: readonly Route[] = [
  {
    name: 'work.poll',
    method: 'GET',
    path: `${WORK}/poll`,
    takes: ['environment_key'],
    async answer(call) {
      const { block_ms: blockMs = 0, reclaim_older_than_ms: reclaimMs } = checked(pollQuery, call.query)
      const item = await queueOf(call).poll({
        workerId: call.headers['anthropic-worker-id']?.toString(),
        blockMs,
        reclaimMs: reclaimMs ?? call.plane.settings.reclaim_ms,
        signal: call.signal,
      })
      return json<BetaSelfHostedWork | null>(item === null ? null : item.wire(secretOf(call, item)))
    },
  },
  {
    name: 'work.stats',
    method: 'GET',
    path: `${WORK}/stats`,
    takes: ['api_key'],
    answer: (call) => json<BetaSelfHostedWorkQueueStats>(queueOf(call).stats()),
  },
  {
    name: 'work.list',
    method: 'GET',
    path: WORK,
    // "Accepts the environment key as a bearer token. It rejects a Claude API key."
    takes: ['environment_key'],
    answer(call) {
      const newestFirst = queueOf(call).items.toReversed()
      const { data, next_page } = pageOf(newestFirst, ({ id }) => id, checked(pageQuery(100), call.query))
      return json<BetaSelfHostedWorkListResponse>({ data: data.map((item) => item.wire()), next_page })
    },
  },
  {
    name: 'work.retrieve',
    method: 'GET',
    path: `${WORK}/:workId`,
    // "It rejects the environment key and the work item's `secret`."
    takes: ['api_key'],
    answer: (call) => json<BetaSelfHostedWork>(itemOf(call).wire()),
  },
  {
    name: 'work.update',
    method: 'POST',
    path: `${WORK}/:workId`,
    takes: ['api_key'],
    answer(call) {
      const item = itemOf(call)
      const { metadata } = checked(updateBody, call.body)
      const merged = Object.entries({ ...item.metadata, ...metadata })
      item.metadata = Object.fromEntries(merged.filter((pair): pair is [string, string] => pair[1] !== null))
      return json<BetaSelfHostedWork>(item.wire())
    },
  },
  {
    name: 'work.ack',
    method: 'POST',
    path: `${WORK}/:workId/ack`,
    takes: ['environment_key', 'item_secret'],
    answer(call) {
      const item = itemOf(call)
      item.ack(call.plane.settings.ttl_seconds)
      return json<BetaSelfHostedWork>(item.wire())
    },
  },
  {
    name: 'work.heartbeat',
    method: 'POST',
    path: `${WORK}/:workId/heartbeat`,
    takes: ['environment_key', 'item_secret'],
    answer(call) {
      const query = checked(heartbeatQuery, call.query)
      const { ttl_seconds } = call.plane.settings
      const beat = itemOf(call).heartbeat(
        query.expected_last_heartbeat,
        query.desired_ttl_seconds,
        ttl_seconds,
      )
      return json<BetaSelfHostedWorkHeartbeatResponse>(beat)
    },
  },
  {
    name: 'work.stop',
    method: 'POST',
    path: `${WORK}/:workId/stop`,
    takes: ['api_key', 'environment_key', 'item_secret'],
    answer(call) {
      const item = itemOf(call)
      item.stop(checked(stopBody, call.body).force)
      return json<BetaSelfHostedWork>(item.wire())
    },
  },
]
