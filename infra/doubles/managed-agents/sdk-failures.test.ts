/** What can go wrong between the double and the worker of Anthropic's own SDK. */
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { startManagedAgents, type ManagedAgentsDouble } from './managed-agents-double.ts'
import { claim, clientOf, handOver, poll, textOfResult, tool, workerClientOf } from './sdk-judge.ts'
import { echo, serve, useEcho, waitingTool } from './sdk-serving.ts'

const SOON = 15_000

let double: ManagedAgentsDouble
beforeEach(async () => {
  double = await startManagedAgents()
})
afterEach(async () => {
  expect(double.faultsLeft, 'failures that nothing met').toEqual([])
  await double.close()
})

const statesOf = (): string[] => (double.items[0]?.history ?? []).map(({ state }) => state)

it('a worker that loses its lease to another posts nothing and leaves the item alone', async () => {
  double.configure({ ttl_seconds: 2 })
  const session = double.createSession({ script: [{ tool_use: { name: 'wait' } }] })
  const { wait, started } = waitingTool()
  const first = serve(double, [wait])
  await started
  double.items[0]?.expire()
  const second = await claim(double)
  const mark = double.requests.length
  await workerClientOf(double).beta.environments.work.heartbeat(second.id, {
    environment_id: double.environmentId,
    expected_last_heartbeat: 'NO_HEARTBEAT',
  })
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
    const { wait, started } = waitingTool()
    const work = await claim(double)
    // Without retries, the worker does not repeat the stop of an item that is stopped already.
    const served = clientOf(double, { maxRetries: 0 })
      .beta.environments.work.worker({ workdir: tmpdir(), tools: [wait] })
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
  await serve(double, [note])
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
  await serve(double, [echo])
  await session.untilIdle()
  expect([...session.results.values()].map(({ answers }) => answers)).toEqual([1, 1, 1, 1])
})

it('a result is delivered once after a burst of 529, and its tool runs once', async () => {
  // The core client tries three times, and the runner again after a second.
  double.inject({ kind: 'status', route: 'events.send', status: 529, times: 3, retry_after_ms: 1 })
  let runs = 0
  const count = tool('echo', () => `run ${++runs}`)
  const session = double.createSession({ script: [useEcho('a')] })
  await serve(double, [count])
  const [call] = await session.untilAnswered()
  expect(textOfResult(call)).toBe('run 1')
  expect(call?.answers).toBe(1)
  expect(double.requests.filter(({ route }) => route === 'events.send').map(({ status }) => status)).toEqual([
    529, 529, 529, 200,
  ])
})

it('an item whose holder stops to heartbeat is queued again and served by another worker', async () => {
  double.configure({ ttl_seconds: 0.2 })
  const session = double.createSession({ script: [useEcho('a')] })
  await claim(double)
  await expect.poll(() => double.items[0]?.state, { timeout: SOON }).toBe('queued')
  double.configure({ ttl_seconds: 300 })
  await serve(double, [echo])
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
  await serve(double, [wait])
  expect([...session.results.values()][0]?.answers).toBe(0)
  expect(statesOf().at(-1)).toBe('active')
})
