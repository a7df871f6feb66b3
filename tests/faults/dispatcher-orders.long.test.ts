/**
 * Orders of events that a dispatcher meets rarely. Each test produces one: the double holds a call or its
 * answer back.
 */
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, describe, expect, vi } from 'vitest'
import type { FaultInput } from '../../infra/doubles/managed-agents/faults.ts'
import { startDispatcher } from '../dispatcher.ts'
import type { FleetWorker } from '../fleet.ts'
import { auditRows } from './accounts.ts'
import {
  bash,
  callsOf,
  effect,
  effectsOf,
  NOTICE,
  startServedFleet,
  textOf,
  type ServedFleet,
  type Session,
} from './served-fleet.ts'

const onProcess = needs('process-namespaces', 'cgroups')
const PATIENT = { timeout: 60_000, interval: 50 }
const HELD = { ms: 600_000 } as const
const WORKER = { COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '4' }

let served: ServedFleet
let dispatchers: FleetWorker[] = []
beforeAll(async () => {
  served = await startServedFleet({ reclaim_ms: 500 })
})
afterEach(async () => {
  served.double.clearFaults()
  await Promise.all(dispatchers.splice(0).map((one) => one.kill()))
})
afterAll(async () => served?.[Symbol.asyncDispose]())

/** A new environment: creates sessions and work items in it, and starts dispatchers for it. */
function newEnvironment() {
  const { double, fleet } = served
  const environment = double.createEnvironment()
  return {
    create: (options: Parameters<typeof double.createSession>[0]) =>
      double.createSession({ ...options, environmentId: environment.id }),
    /** Makes another work item for the session. */
    enqueue: (session: Session) => double.enqueue(session, environment.id),
    async start(settings: Record<string, unknown> = {}): Promise<FleetWorker> {
      const one = await startDispatcher(fleet, double, { environments: [{ ...environment, settings }] })
      dispatchers.push(one)
      return one
    },
  }
}

const itemOf = (session: Session) => served.double.items.find(({ data }) => data.id === session.id)!
const untilEnded = (session: Session): Promise<void> =>
  vi.waitFor(() => expect(itemOf(session).state).toBe('stopped'), PATIENT)
/** The double holds these calls of the session or its item, until the faults are cleared. */
const hold = (id: string, route: string, more: Partial<Extract<FaultInput, { kind: 'delay' }>> = {}): void =>
  served.double.inject({ kind: 'delay', route, id, ...HELD, ...more })
/** How often a route was called for this session or item. */
const asked = (id: string, route: string): number =>
  served.double.requests.filter((one) => one.route === route && one.path.split('/').includes(id)).length
const untilAsked = (id: string, route: string, times = 1): Promise<void> =>
  vi.waitFor(() => expect(asked(id, route)).toBeGreaterThanOrEqual(times), PATIENT)
const answered = (session: Session, count: number): Promise<void> =>
  session.until(
    'answers',
    () => callsOf(session).filter(({ result }) => result !== null).length >= count,
    60_000,
  )
const texts = (session: Session): string[] => callsOf(session).map(textOf)

onProcess.it('a session that ends while its sandbox is prepared leaves no sandbox', async () => {
  const environment = newEnvironment()
  const session = environment.create({ script: [{ terminate: true }] })
  await environment.start()
  // No worker runs, so the sandbox is still being prepared.
  await untilEnded(session)
  await using _worker = await startWorker()
  const prepared = async () =>
    (await auditRows(served.fleet, 'acme')).filter(({ run_id }) => run_id === session.id).length
  await vi.waitFor(async () => expect(await prepared()).toBeGreaterThan(0), PATIENT)
  await vi.waitFor(async () => expect(await served.sandboxes()).not.toContain(session.id), PATIENT)
})

describe('with a worker', () => {
  let worker: Awaited<ReturnType<typeof startWorker>>
  beforeAll(async () => {
    worker = await startWorker()
  })
  afterAll(async () => worker[Symbol.asyncDispose]())

  onProcess.it('a session that ends before its event stream begins is not served for ever', async () => {
    const environment = newEnvironment()
    const session = environment.create({ script: [bash(effect('only'))] })
    hold(session.id, 'events.stream', { before: true })
    await environment.start()
    await untilAsked(session.id, 'events.stream')
    session.terminate()
    served.double.clearFaults()
    await untilEnded(session)
    await vi.waitFor(async () => expect(await served.sandboxes()).not.toContain(session.id), PATIENT)
  })

  onProcess.it(
    'a call is answered although a late acknowledgement made another dispatcher serve its item',
    async () => {
      const environment = newEnvironment()
      const session = environment.create({ agentId: 'late', script: [bash(effect('only', 'sleep 5'))] })
      const { id } = itemOf(session)
      hold(id, 'work.ack', { before: true })
      await environment.start()
      await untilAsked(id, 'work.ack')
      await environment.start()
      await vi.waitFor(async () => expect(await served.statesOf('late')).toContain('running'), PATIENT)
      served.double.clearFaults()
      // The double delays heartbeats, so the late dispatcher does not learn yet that it has lost the item.
      hold(id, 'work.heartbeat', { before: true })
      await untilAsked(id, 'work.heartbeat', 2)
      await vi.waitFor(async () => expect(await served.statesOf('late')).toEqual([]), PATIENT)
      await answered(session, 1)
      expect(texts(session)).toEqual(['1'])
    },
  )

  onProcess.it('a late acknowledgement of one item does not take the session from another item', async () => {
    const environment = newEnvironment()
    const one = { max_sessions: 1 }
    const session = environment.create({ agentId: 'second', script: [bash(effect('only', 'sleep 6'))] })
    const { id } = itemOf(session)
    hold(id, 'work.ack', { before: true })
    await environment.start(one)
    await untilAsked(id, 'work.ack')
    await environment.start(one)
    await vi.waitFor(async () => expect(await served.statesOf('second')).toContain('running'), PATIENT)
    const second = environment.enqueue(session)
    await environment.start(one)
    await untilAsked(second.id, 'work.heartbeat')
    await untilAsked(session.id, 'events.stream', 2)
    served.double.clearFaults()
    // While the call runs, the double delays three requests. The late dispatcher is not refused and cannot
    // read the session, so it cannot answer. The third dispatcher cannot stop the second item.
    hold(id, 'work.heartbeat', { before: true, ms: 8000 })
    hold(session.id, 'sessions.retrieve', { before: true })
    hold(second.id, 'work.stop', { before: true })
    await answered(session, 1)
    expect(texts(session)).toEqual(['1'])
  })

  onProcess.it('outputs are kept although the dispatcher is killed after the last answer', async () => {
    const environment = newEnvironment()
    const session = environment.create({ script: [bash(effect('only')), { idle: 'end_turn' }] })
    hold(session.id, 'events.send')
    const first = await environment.start()
    await answered(session, 1)
    await first.kill()
    itemOf(session).expire()
    await environment.start({ max_idle_ms: 1000 })
    await untilEnded(session)
    expect(await effectsOf(served, session)).toEqual(['only'])
  })

  onProcess.it('a session is served although the control plane fails for seconds at its start', async () => {
    const environment = newEnvironment()
    const session = environment.create({ script: [bash(effect('only'))] })
    for (const route of ['sessions.retrieve', 'events.list'])
      served.double.inject({ kind: 'status', route, status: 529, id: session.id, times: 4 })
    await environment.start()
    await answered(session, 1)
    expect(texts(session)).toEqual(['1'])
  })

  onProcess.it(
    'the agent is told once of a new sandbox, although the dispatcher is killed as it tells',
    async () => {
      const environment = newEnvironment()
      const asked = {
        name: 'bash',
        input: { command: effect('second') },
        evaluated_permission: 'ask',
      } as const
      const session = environment.create({
        script: [bash(effect('first')), { tool_use: asked }, bash(effect('third'))],
      })
      const first = await environment.start()
      await answered(session, 1)
      await worker.worker.kill()
      worker = await startWorker()
      hold(session.id, 'events.send', { before: true })
      for (const { id } of callsOf(session).filter(({ open }) => open)) session.confirm(id, 'allow')
      await untilAsked(session.id, 'events.send', 2)
      await first.kill()
      itemOf(session).expire()
      await environment.start()
      await answered(session, 3)
      expect(texts(session).map((text) => NOTICE.test(text))).toEqual([false, true, false])
    },
  )
})

/** Starts a worker. Disposing stops it, so that the sandboxes of the test end with it. */
async function startWorker(): Promise<AsyncDisposable & { worker: FleetWorker }> {
  const worker = await served.fleet.startWorker(WORKER)
  return { worker, [Symbol.asyncDispose]: async () => void (await worker.stop()) }
}
