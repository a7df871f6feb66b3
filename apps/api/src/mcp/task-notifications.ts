/**
 * `notifications/tasks`: a client names tasks in `subscriptions/listen` and is told of each change, in the
 * form of `tasks/get`. The SDK checks the request and acknowledges it. The SDK does not know the field
 * `taskIds`, so we write the stream after that:
 *
 *   acknowledged, with the tasks that are the caller's ─► each task now ─► each change ─► all ended: result
 *
 * A task that ended before the client listened is therefore not missed.
 */
import { setTimeout as pause } from 'node:timers/promises'
import {
  CLIENT_CAPABILITIES_META_KEY,
  ProtocolErrorCode,
  SERVER_INFO_META_KEY,
  SUBSCRIPTION_ID_META_KEY,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { Exchange } from './exchange.ts'
import { SERVER_INFO } from './server-info.ts'
import { declaresTasksIn, readTask, TASKS } from './tasks.ts'

/** Tasks of one stream. Each costs one read of the queue every LOOK_MS. */
const TASKS_MAX = 32

const LOOK_MS = 500

/** Proxies commonly close connections that are silent for 60 s. */
const KEEP_ALIVE_MS = 15_000

const requestSchema = z.looseObject({
  id: z.union([z.string(), z.number()]),
  params: z.looseObject({
    _meta: z.looseObject({}).optional(),
    notifications: z.looseObject({ taskIds: z.array(z.string().max(128)).min(1) }),
  }),
})

/**
 * Answers `body`, a request that the SDK has answered with `acknowledged`. Returns `acknowledged` itself if
 * the request names no task. The stream ends when every task has ended, or when `signal` aborts.
 */
export async function answerListener(
  exchange: Exchange,
  body: unknown,
  acknowledged: Response,
  signal: AbortSignal,
): Promise<Response> {
  const asked = requestSchema.safeParse(body).data
  if (asked === undefined || !acknowledged.ok || !isStream(acknowledged)) return acknowledged
  await acknowledged.body?.cancel()
  const { id, params } = asked
  const { taskIds } = params.notifications
  if (!declaresTasksIn(params._meta?.[CLIENT_CAPABILITIES_META_KEY]))
    return refusal(id, -32_021, 'Missing required client capability', {
      requiredCapabilities: { extensions: { [TASKS]: {} } },
    })
  if (taskIds.length > TASKS_MAX)
    return refusal(id, ProtocolErrorCode.InvalidParams, `At most ${TASKS_MAX} tasks can be named.`)
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const work = watch(exchange, id, [...new Set(taskIds)], writable.getWriter(), signal)
  // When `signal` has aborted, nobody reads the stream any more, so a failed write is not logged.
  work.catch((error: unknown) => {
    if (!signal.aborted) exchange.request.log.warn({ err: error }, 'notifications of tasks broke off')
  })
  return new Response(readable, { headers: acknowledged.headers })
}

const isStream = (response: Response): boolean =>
  response.headers.get('content-type')?.startsWith('text/event-stream') === true

const refusal = (id: string | number, code: number, message: string, data?: object): Response =>
  Response.json(
    { jsonrpc: '2.0', id, error: { code, message, ...(data === undefined ? {} : { data }) } },
    { status: 400 },
  )

async function watch(
  exchange: Exchange,
  id: string | number,
  taskIds: readonly string[],
  writer: WritableStreamDefaultWriter<Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const encoder = new TextEncoder()
  let writtenAtMs = performance.now()
  const write = async (text: string): Promise<void> => {
    await writer.write(encoder.encode(text))
    writtenAtMs = performance.now()
  }
  const send = (message: object): Promise<void> =>
    write(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`)
  const notify = (method: string, params: object): Promise<void> =>
    send({ method, params: { ...params, _meta: { [SUBSCRIPTION_ID_META_KEY]: id } } })
  try {
    /** What was last sent of each open task. */
    const open = new Map<string, string>()
    for (const taskId of taskIds) if ((await readTask(exchange, taskId)) !== null) open.set(taskId, '')
    const notifications = open.size === 0 ? {} : { taskIds: [...open.keys()] }
    await notify('notifications/subscriptions/acknowledged', { notifications })
    while (open.size > 0 && !signal.aborted) {
      for (const [taskId, before] of open) {
        const task = await readTask(exchange, taskId)
        if (task === null || task['status'] !== 'working') open.delete(taskId)
        const now = JSON.stringify(task)
        if (task === null || now === before) continue
        if (open.has(taskId)) open.set(taskId, now)
        await notify('notifications/tasks', task)
      }
      if (performance.now() - writtenAtMs > KEEP_ALIVE_MS) await write(': \n\n')
      if (open.size > 0) await pause(LOOK_MS, undefined, { signal }).catch(() => undefined)
    }
    const _meta = { [SUBSCRIPTION_ID_META_KEY]: id, [SERVER_INFO_META_KEY]: SERVER_INFO }
    await send({ id, result: { resultType: 'complete', _meta } })
  } finally {
    await writer.close().catch(() => undefined)
  }
}
