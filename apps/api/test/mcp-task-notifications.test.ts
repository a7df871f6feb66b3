/** `subscriptions/listen` with task IDs: what a client hears of its tasks, and what it does not. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openReplicas, post } from './mcp-client.ts'
import { openGuarded } from './oauth-scene.ts'
import type { Scene } from './scene.ts'

let scene: Scene
let url: string
/** Another replica over the same Redis. */
let otherUrl: string

beforeAll(async () => {
  ;({ scene, url, otherUrl } = await openReplicas())
})
afterAll(() => scene[Symbol.asyncDispose]())

const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId'

interface Message {
  id?: number
  method?: string
  // oxlint-disable-next-line typescript/no-explicit-any
  params?: any
  // oxlint-disable-next-line typescript/no-explicit-any
  result?: any
}

/** Starts an execution that goes on after the answer. Returns its ID, which is the task's. */
async function startTask(source: string): Promise<string> {
  const program = { type: 'script', language: 'python', source }
  const payload = { tenant_id: 'acme', agent_id: 'a', program }
  const { json } = await scene.call({ method: 'POST', url: '/v1/executions', payload })
  return json.execution_id
}

const listen = (
  taskIds: unknown,
  options: {
    address?: string
    headers?: Record<string, string>
    capabilities?: object
    signal?: AbortSignal
  } = {},
): Promise<Response> => {
  const { address = url, headers = scene.acme, capabilities = TASKS, signal } = options
  const more = signal === undefined ? {} : { signal }
  return post(
    address,
    'subscriptions/listen',
    { notifications: { taskIds } },
    { headers, capabilities, ...more },
  )
}

/** The messages of a stream, as they come. */
async function* messagesOf(answer: Response): AsyncGenerator<Message> {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const chunk of answer.body ?? []) {
    rest += decoder.decode(chunk, { stream: true })
    const lines = rest.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines)
      if (line.startsWith('data: ')) yield JSON.parse(line.slice('data: '.length)) as Message
  }
}

it('sends each task as tasks/get has it, and ends when all have ended', async () => {
  const [soon, cancelled] = [await startTask('seconds 1'), await startTask('wait')]
  const heard: Message[] = []
  for await (const message of messagesOf(await listen([soon, cancelled], { address: otherUrl }))) {
    heard.push(message)
    if (message.params?.status === 'completed') await scene.producer.cancel(cancelled as never, 'enough')
  }
  const [first, ...rest] = heard
  expect(first).toMatchObject({
    method: 'notifications/subscriptions/acknowledged',
    params: { notifications: { taskIds: [soon, cancelled] }, _meta: { [SUBSCRIPTION]: 1 } },
  })
  const states = (id: string) =>
    rest.filter(({ params }) => params?.taskId === id).map(({ params }) => params.status as string)
  expect([states(soon)[0], states(soon).at(-1)]).toEqual(['working', 'completed'])
  expect([states(cancelled)[0], states(cancelled).at(-1)]).toEqual(['working', 'cancelled'])
  const done = rest.find(({ params }) => params?.status === 'completed')
  expect(done).toMatchObject({ method: 'notifications/tasks', params: { _meta: { [SUBSCRIPTION]: 1 } } })
  const asked = await post(url, 'tasks/get', { taskId: soon }, { headers: scene.acme, capabilities: TASKS })
  const { resultType: _, _meta: __, ...task } = ((await asked.json()) as Message).result
  const { _meta: ___, ...notified } = done?.params ?? {}
  expect(notified).toEqual(task)
  expect(rest.at(-1)).toMatchObject({
    id: 1,
    result: { resultType: 'complete', _meta: { [SUBSCRIPTION]: 1 } },
  })
})

it('tells of a task that ended before the client listened', async () => {
  const id = await startTask('hello')
  await scene.producer.wait(id as never, { timeoutMs: 10_000 })
  const heard = await Array.fromAsync(messagesOf(await listen([id])))
  expect(heard.map(({ method, params }) => params?.status ?? method ?? 'result')).toEqual([
    'notifications/subscriptions/acknowledged',
    'completed',
    'result',
  ])
})

it('agrees to no task of another tenant, and to none that does not exist', async () => {
  const id = await startTask('wait')
  const asked = [id, 'nothing', `exe_${'0'.repeat(32)}`]
  const heard = await Array.fromAsync(messagesOf(await listen(asked, { headers: scene.globex })))
  expect(heard).toMatchObject([{ params: { notifications: {} } }, { id: 1 }])
  expect(JSON.stringify(heard)).not.toContain(id)
  await scene.producer.cancel(id as never, 'done')
})

it('is refused without the extension, and for more than 32 tasks', async () => {
  const without = await listen(['any'], { capabilities: {} })
  expect([without.status, await without.json()]).toMatchObject([
    400,
    { error: { code: -32_021, data: { requiredCapabilities: TASKS } } },
  ])
  const many = await listen(Array.from({ length: 33 }, (_, index) => `task ${index}`))
  expect([many.status, await many.json()]).toMatchObject([400, { error: { code: -32_602 } }])
})

it('acknowledges nothing when the client names no task', async () => {
  for (const taskIds of [[], undefined, 'exe', [7]]) {
    const heard = await Array.fromAsync(messagesOf(await listen(taskIds)))
    expect(heard.filter(({ method }) => method === 'notifications/tasks')).toEqual([])
  }
})

it('leaves the task running when the client stops listening', async () => {
  const id = await startTask('wait')
  const stop = new AbortController()
  const answer = await listen([id], { signal: stop.signal })
  const messages = messagesOf(answer)
  expect((await messages.next()).value).toMatchObject({ params: { notifications: { taskIds: [id] } } })
  stop.abort()
  await expect(Array.fromAsync(messages)).rejects.toThrow()
  expect((await scene.producer.get(id as never))?.status).not.toBe('ended')
  await scene.producer.cancel(id as never, 'done')
})

it('ends when the token of the client expires', async () => {
  await using api = await openGuarded(scene)
  const id = await startTask('wait')
  // The API accepts a token for 30 s after it expired, because clocks may differ. This token is valid for 3 s
  // more.
  const token = api.token({ exp: Math.floor(Date.now() / 1000) - 27 })
  const headers = { authorization: `Bearer ${token}` }
  const heard = await Array.fromAsync(messagesOf(await listen([id], { address: api.url, headers })))
  expect(heard.at(-1)).toMatchObject({ id: 1, result: { resultType: 'complete' } })
  expect((await scene.producer.get(id as never))?.status).not.toBe('ended')
  await scene.producer.cancel(id as never, 'done')
})
