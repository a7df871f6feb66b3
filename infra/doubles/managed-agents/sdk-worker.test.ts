/** The double, judged by the worker of Anthropic's own SDK. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { startManagedAgents, type ManagedAgentsDouble } from './managed-agents-double.ts'
import type { Step } from './scripted-agent.ts'
import { claim, clientOf, textOfResult, tool } from './sdk-judge.ts'
import { echo, MAX_IDLE_MS, serve, useEcho, whileRunning } from './sdk-serving.ts'

const SOON = 15_000

let double: ManagedAgentsDouble
beforeEach(async () => {
  double = await startManagedAgents()
})
afterEach(() => double.close())

const bash = (command: string): Step => ({ tool_use: { name: 'bash', input: { command } } })
const statesOf = (): string[] => (double.items[0]?.history ?? []).map(({ state }) => state)
const routes = (): (string | null)[] => double.requests.map(({ route }) => route)
const untilStopped = (): Promise<void> =>
  expect.poll(() => statesOf(), { timeout: SOON }).toContain('stopped')

it('the worker runs a session’s calls with the SDK’s own tools and stops the item', async () => {
  const workdir = await mkdtemp(join(tmpdir(), 'managed-agents-'))
  const session = double.createSession({
    script: [
      bash('echo hello > notes.txt; cat notes.txt'),
      { tool_use: { name: 'read', input: { file_path: 'notes.txt' } } },
      bash('echo no; (exit 3)'),
      { message: 'Done.' },
    ],
  })
  await whileRunning(
    double,
    async () => {
      await session.untilIdle()
      await untilStopped()
    },
    { workdir },
  )
  await rm(workdir, { recursive: true })
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
  await whileRunning(double, untilStopped, { tools: [echo] })
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
  await Promise.all([serve(double, [meet]), serve(double, [meet])])
  for (const session of sessions) expect(textOfResult((await session.untilAnswered())[0])).toBe('met')
})

it('a message to a dormant session makes a new item, and a message to a served one does not', async () => {
  const session = double.createSession({ script: [useEcho('one'), { idle: 'end_turn' }, useEcho('two')] })
  await serve(double, [echo])
  expect(double.items).toHaveLength(1)
  session.send('Go on.')
  session.send('And on.')
  expect(double.items).toHaveLength(2)
  await serve(double, [echo])
  expect((await session.untilAnswered(2)).map(textOfResult)).toEqual(['echo one', 'echo two'])
})

it('a call that needs a confirmation runs after it is allowed', async () => {
  const session = double.createSession({
    script: [{ tool_use: { name: 'echo', input: { text: 'a' }, evaluated_permission: 'ask' } }],
  })
  const served = serve(double, [echo])
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
  const served = serve(double, [count])
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
  const served = serve(double, [echo], { signal: stop.signal })
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
  await whileRunning(double, untilStopped)
  expect(routes()).not.toContain('sessions.retrieve')
})

it.each(['terminate', 'archive'] as const)(
  'the item of a session after %s is stopped without its tools',
  async (end) => {
    const session = double.createSession({ script: [useEcho('a')] })
    session[end]()
    await serve(double, [echo])
    expect(statesOf().at(-1)).toBe('stopped')
    expect(routes()).not.toContain('events.stream')
  },
)

it('a deletion ends the worker of the session', async () => {
  const session = double.createSession({ script: [{ wait: 'stream' }, { tool_use: { name: 'unheard_of' } }] })
  const served = serve(double, [echo])
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
