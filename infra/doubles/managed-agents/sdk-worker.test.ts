/** The double, judged by the worker of Anthropic's own SDK. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BetaRunnableTool } from '@anthropic-ai/sdk/lib/tools/BetaRunnableTool'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { startManagedAgents, type ManagedAgentsDouble } from './managed-agents-double.ts'
import { claim, clientOf, handOver, poll, textOfResult, tool } from './sdk-judge.ts'
import type { Step } from './scripted-agent.ts'

const SOON = 15_000
/** The SDK's worker leaves a session that is idle for this long. */
const MAX_IDLE_MS = 50

let double: ManagedAgentsDouble
let workdir: string
beforeEach(async () => {
  double = await startManagedAgents()
  workdir = await mkdtemp(join(tmpdir(), 'managed-agents-'))
})
afterEach(async () => {
  expect(double.faultsLeft, 'failures that nothing met').toEqual([])
  await double.close()
  await rm(workdir, { recursive: true })
})

const bash = (command: string): Step => ({ tool_use: { name: 'bash', input: { command } } })
const echo = tool('echo', ({ text }) => `echo ${String(text)}`)
const useEcho = (text: string): Step => ({ tool_use: { name: 'echo', input: { text } } })
const statesOf = (index = 0): string[] => (double.items[index]?.history ?? []).map(({ state }) => state)
const routesSince = (from: number): (string | null)[] => double.requests.slice(from).map(({ route }) => route)

/** Serves one claimed item with the SDK, and these tools instead of its own. */
const handle = async (tools?: BetaRunnableTool[], options: { signal?: AbortSignal } = {}): Promise<void> => {
  const work = await claim(double)
  await clientOf(double)
    .beta.environments.work.worker({
      workdir,
      maxIdleMs: MAX_IDLE_MS,
      ...(tools === undefined ? {} : { tools }),
    })
    .handleItem({ ...handOver(work), ...options })
}

/** Runs the SDK's daemon while `during` runs. */
async function whileRunning(during: () => Promise<void>, tools?: BetaRunnableTool[]): Promise<void> {
  const stop = new AbortController()
  const running = clientOf(double)
    .beta.environments.work.worker({
      environmentId: double.environmentId,
      environmentKey: double.environmentKey,
      workdir,
      maxIdleMs: MAX_IDLE_MS,
      ...(tools === undefined ? {} : { tools }),
    })
    .run(stop.signal)
  const ended = running.catch((error: unknown) => {
    if (!stop.signal.aborted) throw error
  })
  try {
    await Promise.race([during(), ended.then(() => Promise.reject(new Error('the worker ended')))])
  } finally {
    stop.abort()
    await ended
  }
}

it('the worker runs a session’s calls with the SDK’s own tools and stops the item', async () => {
  const session = double.createSession({
    script: [
      bash('echo hello > notes.txt; cat notes.txt'),
      { tool_use: { name: 'read', input: { file_path: 'notes.txt' } } },
      bash('echo no; (exit 3)'),
      { message: 'Done.' },
    ],
  })
  await whileRunning(async () => {
    await session.untilIdle()
    await expect.poll(() => statesOf(), { timeout: SOON }).toContain('stopped')
  })
  const [first, second, third] = await session.untilAnswered(3)
  expect(textOfResult(first).trim()).toBe('hello')
  expect(textOfResult(second)).toContain('hello')
  expect(third?.result?.isError).toBe(true)
  expect(textOfResult(third)).toContain('no')
  expect([...session.results.values()].map(({ answers }) => answers)).toEqual([1, 1, 1])
  expect(statesOf()).toEqual(['queued', 'starting', 'active', 'stopped'])
  expect(session.events.map(({ type }) => type)).toEqual([
    'user.message',
    ...Array.from({ length: 3 }, () => [
      'session.status_running',
      'agent.tool_use',
      'session.status_idle',
      'user.tool_result',
    ]).flat(),
    'session.status_running',
    'agent.message',
    'session.status_idle',
  ])
})

it('the worker sends the item’s token and no other credential for everything but poll and ack', async () => {
  double.createSession({ script: [useEcho('a')] })
  await whileRunning(async () => {
    await expect.poll(() => statesOf(), { timeout: SOON }).toContain('stopped')
  }, [echo])
  const withKey = double.requests.filter(({ credential }) => credential === 'environment_key')
  expect(new Set(withKey.map(({ route }) => route))).toEqual(new Set(['work.poll', 'work.ack']))
  const withToken = double.requests.filter(({ credential }) => credential === 'item_secret')
  expect(new Set(withToken.map(({ route }) => route))).toEqual(
    new Set([
      'work.heartbeat',
      'sessions.retrieve',
      'events.stream',
      'events.list',
      'events.send',
      'work.stop',
    ]),
  )
  expect(new Set(withToken.map(({ itemId }) => itemId))).toEqual(new Set([double.items[0]?.id]))
})

it('two sessions are served at once by two handlers', async () => {
  let running = 0
  const { promise: both, resolve: bothRun } = Promise.withResolvers<undefined>()
  const meet = tool('meet', async () => {
    running += 1
    if (running === 2) bothRun(undefined)
    await both
    return 'met'
  })
  const sessions = [1, 2].map(() => double.createSession({ script: [{ tool_use: { name: 'meet' } }] }))
  await Promise.all([handle([meet]), handle([meet])])
  for (const session of sessions) expect(textOfResult((await session.untilAnswered())[0])).toBe('met')
})

it('a message to a dormant session makes a new item, and a message to a served one does not', async () => {
  const session = double.createSession({ script: [useEcho('one'), { idle: 'end_turn' }, useEcho('two')] })
  await handle([echo])
  expect(double.items).toHaveLength(1)
  session.send('Go on.')
  session.send('And on.')
  expect(double.items).toHaveLength(2)
  await handle([echo])
  expect((await session.untilAnswered(2)).map(textOfResult)).toEqual(['echo one', 'echo two'])
})

it('a worker that loses its lease to another posts nothing and leaves the item alone', async () => {
  double.configure({ ttl_seconds: 2 })
  const session = double.createSession({ script: [{ tool_use: { name: 'wait' } }] })
  const { promise: started, resolve: start } = Promise.withResolvers<undefined>()
  const wait = tool('wait', async (_, signal) => {
    start(undefined)
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    return 'too late'
  })
  const first = handle([wait])
  await started
  double.items[0]?.expire()
  const second = await claim(double)
  const mark = double.requests.length
  await clientOf(double, { apiKey: null, authToken: double.environmentKey }).beta.environments.work.heartbeat(
    second.id,
    { environment_id: double.environmentId, expected_last_heartbeat: 'NO_HEARTBEAT' },
  )
  await first
  expect(double.requests.slice(mark).map(({ route, status }) => [route, status])).toEqual([
    ['work.heartbeat', 200],
    ['work.heartbeat', 412],
  ])
  expect(double.items[0]?.state).toBe('active')
  expect([...session.results.values()].map(({ answers }) => answers)).toEqual([0])
})

it.each([
  { force: false, then: ['stopping', 'stopped'] },
  { force: true, then: ['stopped'] },
])(
  'a stop with force $force aborts the running tool, whose result is not posted',
  async ({ force, then }) => {
    double.configure({ ttl_seconds: 2 })
    const session = double.createSession({ script: [{ tool_use: { name: 'wait' } }] })
    const { promise: started, resolve: start } = Promise.withResolvers<undefined>()
    const wait = tool('wait', async (_, signal) => {
      start(undefined)
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      return 'too late'
    })
    const work = await claim(double)
    // Without retries, the worker does not repeat the stop of an item that is stopped already.
    const served = clientOf(double, { maxRetries: 0 })
      .beta.environments.work.worker({ workdir, tools: [wait] })
      .handleItem(handOver(work))
    await started
    await clientOf(double).beta.environments.work.stop(work.id, {
      environment_id: double.environmentId,
      force,
    })
    await served
    expect(statesOf()).toEqual(['queued', 'starting', 'active', ...then])
    expect(await session.untilAsked()).toMatchObject([{ answers: 0 }])
  },
)

it('a worker whose stream breaks reads the history and runs no call twice', async () => {
  double.inject({ kind: 'cut', after_events: 1 })
  const ran: string[] = []
  const note = tool('echo', ({ text }) => {
    ran.push(String(text))
    return 'ok'
  })
  const session = double.createSession({ script: [{ wait: 'stream' }, useEcho('a'), useEcho('b')] })
  await handle([note])
  await session.untilIdle()
  expect(ran).toEqual(['a', 'b'])
  expect(double.requests.filter(({ route }) => route === 'events.stream')).toHaveLength(2)
})

it.each(['replay', 'reorder'] as const)('a worker runs each call once on a stream with %s', async (kind) => {
  double.inject({ kind })
  const session = double.createSession({
    script: [
      { wait: 'stream' },
      useEcho('a'),
      { tool_uses: [1, 2].map(() => ({ name: 'echo' })) },
      useEcho('b'),
    ],
  })
  await handle([echo])
  await session.untilIdle()
  expect([...session.results.values()].map(({ answers }) => answers)).toEqual([1, 1, 1, 1])
})

it('a result is delivered once after a burst of 529, and its tool runs once', async () => {
  // The core client tries three times, and the runner again after a second.
  double.inject({ kind: 'status', route: 'events.send', status: 529, times: 3, retry_after_ms: 1 })
  let runs = 0
  const count = tool('echo', () => `run ${++runs}`)
  const session = double.createSession({ script: [useEcho('a')] })
  await handle([count])
  const [call] = await session.untilAnswered()
  expect(textOfResult(call)).toBe('run 1')
  expect(call?.answers).toBe(1)
  expect(double.requests.filter(({ route }) => route === 'events.send').map(({ status }) => status)).toEqual([
    529, 529, 529, 200,
  ])
})

it('a call that needs a confirmation runs after it is allowed', async () => {
  const session = double.createSession({
    script: [{ tool_use: { name: 'echo', input: { text: 'a' }, evaluated_permission: 'ask' } }],
  })
  const served = handle([echo])
  await session.until('the worker', () => session.streams > 0)
  const [{ id } = { id: '' }] = await session.untilAsked()
  session.confirm(id, 'allow')
  await served
  expect(textOfResult(session.results.get(id))).toBe('echo a')
})

it('a denied call never runs, and the session goes on', async () => {
  let runs = 0
  const count = tool('echo', () => `run ${++runs}`)
  const session = double.createSession({
    script: [
      { tool_use: { name: 'echo', evaluated_permission: 'deny' } },
      { tool_use: { name: 'echo', evaluated_permission: 'ask' } },
      useEcho('c'),
    ],
  })
  const served = handle([count])
  await session.until('the worker', () => session.streams > 0)
  const [{ id } = { id: '' }] = await session.untilAsked()
  session.confirm(id, 'deny', 'No.')
  await served
  expect([...session.results.values()].map(({ answers }) => answers)).toEqual([0, 0, 1])
  expect(runs).toBe(1)
})

it('a call of a tool that the worker does not have stays open', async () => {
  const session = double.createSession({
    script: [{ tool_uses: [{ name: 'unheard_of' }, { name: 'crm', custom: true }, { name: 'echo' }] }],
  })
  const stop = new AbortController()
  const served = handle([echo], { signal: stop.signal })
  await session.untilAnswered(1)
  const last = session.events.findLast(({ type }) => type === 'session.status_idle')
  const open = [...session.results.values()].filter((call) => call.open)
  expect(open.map(({ name, answers }) => [name, answers])).toEqual([
    ['unheard_of', 0],
    ['crm', 0],
  ])
  expect(last).toMatchObject({
    stop_reason: { type: 'requires_action', event_ids: open.map(({ id }) => id) },
  })
  stop.abort()
  await served
})

it('an item whose holder stops to heartbeat is queued again and served by another worker', async () => {
  double.configure({ ttl_seconds: 0.2 })
  const session = double.createSession({ script: [useEcho('a')] })
  await claim(double)
  await expect.poll(() => double.items[0]?.state, { timeout: SOON }).toBe('queued')
  double.configure({ ttl_seconds: 300 })
  await handle([echo])
  expect(textOfResult((await session.untilAnswered())[0])).toBe('echo a')
  expect(statesOf()).toEqual(['queued', 'starting', 'queued', 'starting', 'active', 'stopped'])
})

it('an item that nobody acknowledges is offered again', async () => {
  const session = double.createSession({ script: [useEcho('a')] })
  await poll(double)
  const poller = clientOf(double).beta.environments.work.poller({
    environmentId: double.environmentId,
    environmentKey: double.environmentKey,
    reclaimOlderThanMs: 20,
  })
  for await (const work of poller) {
    expect(work.data.id).toBe(session.id)
    poller.abort()
  }
  expect(double.items[0]?.deliveries).toBe(2)
  expect(double.items[0]?.state).toBe('stopping')
})

it('the poller drains the queue, and stops each item once when its body returns', async () => {
  for (let n = 0; n < 3; n += 1) double.createSession()
  const seen: string[] = []
  const { work } = clientOf(double).beta.environments
  const { environmentId, environmentKey } = double
  for await (const item of work.poller({ environmentId, environmentKey, drain: true, blockMs: null }))
    seen.push(item.id)
  expect(seen).toEqual(double.items.map(({ id }) => id))
  expect(double.items.map(({ state }) => state)).toEqual(['stopping', 'stopping', 'stopping'])
})

it('a healthcheck is acknowledged and stopped without a session', async () => {
  double.enqueue('healthcheck')
  await whileRunning(async () => {
    await expect.poll(() => statesOf(), { timeout: SOON }).toContain('stopped')
  })
  expect(routesSince(0)).not.toContain('sessions.retrieve')
})

it.each(['terminate', 'archive'] as const)(
  'the item of a session after %s is stopped without its tools',
  async (end) => {
    const session = double.createSession({ script: [useEcho('a')] })
    session[end]()
    await handle([echo])
    expect(statesOf().at(-1)).toBe('stopped')
    expect(routesSince(0)).not.toContain('events.stream')
  },
)

it('a deletion ends the worker of the session', async () => {
  const session = double.createSession({ script: [{ wait: 'stream' }, { tool_use: { name: 'unheard_of' } }] })
  const served = handle([echo])
  await session.until('the call', () => session.results.size > 0)
  session.delete()
  await served
  expect(statesOf().at(-1)).toBe('stopped')
})

it('two items of one session reach two workers', async () => {
  const session = double.createSession({ script: [useEcho('a')] })
  double.enqueue(session)
  const works = [await claim(double), await claim(double)]
  expect(works.map(({ data }) => data.id)).toEqual([session.id, session.id])
  expect(works[0]?.secret).not.toBe(works[1]?.secret)
})

it('the poller gives up with a key that is wrong', async () => {
  const poller = clientOf(double).beta.environments.work.poller({
    environmentId: double.environmentId,
    environmentKey: 'sk-ant-oat01-wrong',
  })
  await expect(poller[Symbol.asyncIterator]().next()).rejects.toMatchObject({
    status: 401,
    type: 'authentication_error',
  })
})

it('a worker whose token is revoked ends its item without a result', async () => {
  double.configure({ ttl_seconds: 2 })
  const session = double.createSession({ script: [{ tool_use: { name: 'wait' } }] })
  const wait = tool('wait', async (_, signal) => {
    for (const item of double.items) double.revokeSecrets(item)
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    return 'too late'
  })
  await handle([wait])
  expect([...session.results.values()][0]?.answers).toBe(0)
  expect(statesOf().at(-1)).toBe('active')
})

it('the session runner of the SDK works without a work item', async () => {
  const session = double.createSession({ script: [useEcho('a')], queued: false })
  const seen: unknown[] = []
  const runner = clientOf(double).beta.sessions.events.toolRunner(session.id, {
    tools: [echo],
    maxIdleMs: MAX_IDLE_MS,
  })
  for await (const { name, posted, isError } of runner) seen.push({ name, posted, isError })
  expect(seen).toEqual([{ name: 'echo', posted: true, isError: false }])
  expect(double.items).toEqual([])
})
