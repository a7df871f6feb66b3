/**
 * Brings one session to each phase of being served, and then kills the dispatcher, the worker or both.
 * Afterwards each call has one answer and one side effect, each item has ended, and nothing runs.
 */
import { needs } from '@cofferdam/embedded/needs'
import { expect } from 'vitest'
import type { ToolCall } from '../../infra/doubles/managed-agents/tool-calls.ts'
import { startDispatcher } from '../dispatcher.ts'
import type { FleetWorker } from '../fleet.ts'
import { auditRows, expectNothingHeld } from './accounts.ts'
import { CLAIMING, RUNNING, SERVING, type Held, type Phase } from './killed-phases.ts'
import {
  callsOf,
  effectsOf,
  expectItemsEnded,
  NOTICE,
  startServedFleet,
  textOf,
  type ServedFleet,
} from './served-fleet.ts'

const it = needs('process-namespaces', 'unzip').it
const WORKER = { COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '6' }
const LONG = { timeout: 420_000 }
const PATIENT = { timeout: 120_000, interval: 100 }
/** The lease is so long that none ends by itself. */
const SETTINGS = { ttl_seconds: 300, reclaim_ms: 1000 }

type Standing = Held & { phase: Phase }

function begin(served: ServedFleet, phase: Phase, environment: Held['environment']): Standing {
  const session = served.double.createSession({ ...phase.options, environmentId: environment.id })
  const held = { phase, served, environment, session }
  const fault = phase.hold?.(held)
  if (fault !== undefined) served.double.inject(fault)
  return held
}

type Victim = 'dispatcher' | 'draining dispatcher' | 'worker' | 'worker and dispatcher'

/** Kills the victims, and starts others in their place. Leases of killed dispatchers end at once. */
async function replace(victim: Victim, at: Running, standing: readonly Standing[]): Promise<void> {
  const { served } = at
  if (victim === 'draining dispatcher') await untilDraining(at, standing)
  if (victim !== 'worker') await at.dispatcher.kill()
  if (victim.includes('worker')) await at.worker.kill()
  if (victim.includes('worker')) at.worker = await served.fleet.startWorker(WORKER)
  if (victim !== 'worker') at.dispatcher = await at.startDispatcher()
  served.double.clearFaults()
  if (victim !== 'worker') for (const item of served.double.items) item.expire()
}

interface Running {
  served: ServedFleet
  worker: FleetWorker
  dispatcher: FleetWorker
  startDispatcher(): Promise<FleetWorker>
}

/**
 * Sends SIGTERM. If a session waits for its user, waits until the drain has begun: the dispatcher then asks
 * for the session's last event, to find out whether its turn is over.
 */
async function untilDraining({ served, dispatcher }: Running, standing: readonly Standing[]): Promise<void> {
  const asked = () => served.double.requests.filter(({ query }) => query['order'] === 'desc').length
  const before = asked()
  dispatcher.process.kill('SIGTERM')
  if (standing.some(({ phase }) => phase.goOn !== undefined))
    await expect.poll(asked, PATIENT).toBeGreaterThan(before)
}

/** The mark that a call of `effect` leaves in the file of effects. */
const markOf = ({ input }: ToolCall): string => String(input['command']).split(' ')[1] ?? ''

const done = ({ session, phase }: Standing): Promise<void> =>
  session.until(
    `answers while ${phase.name}`,
    () => {
      const calls = callsOf(session)
      return calls.length === 2 && calls.every(({ result }) => result !== null)
    },
    PATIENT.timeout,
  )

const [WITHOUT_CLAIMS, WITH_CLAIMS] = [SERVING, [...CLAIMING, ...SERVING]]
const VICTIMS: readonly [Victim, readonly Phase[]][] = [
  ['dispatcher', WITH_CLAIMS],
  // A drain begins only when the claims in progress have ended, so these phases are left out.
  ['draining dispatcher', WITHOUT_CLAIMS],
  ['worker', WITHOUT_CLAIMS],
  ['worker and dispatcher', WITH_CLAIMS],
]

it.each(VICTIMS)(
  'each call has one answer and one effect when the %s is killed',
  LONG,
  async (victim, phases) => {
    await using served = await startServedFleet(SETTINGS)
    const { fleet, double } = served
    const [preparing, collecting, calling] = RUNNING
    const all = [...phases, ...RUNNING]
    const environments = new Map(all.map((phase) => [phase, double.createEnvironment()]))
    const beginAt = (phase: Phase): Standing => begin(served, phase, environments.get(phase)!)
    const at: Running = {
      served,
      worker: await fleet.startWorker(WORKER),
      startDispatcher: () =>
        startDispatcher(fleet, double, {
          environments: all.map((phase) => ({ ...environments.get(phase)!, settings: phase.settings ?? {} })),
        }),
      dispatcher: undefined as unknown as FleetWorker,
    }
    const stands: Standing[] = phases.map(beginAt)
    at.dispatcher = await at.startDispatcher()
    const kill = async (standing: readonly Standing[]): Promise<void> => {
      await Promise.all(standing.map((one) => one.phase.reached(one)))
      await replace(victim, at, standing)
      for (const one of standing) one.phase.goOn?.(one)
      await Promise.all(standing.map(done))
    }
    await Promise.all(stands.map((one) => one.phase.reached(one)))
    stands.push(beginAt(calling!))
    await kill(stands)
    for (const phase of [preparing!, collecting!]) {
      const one = beginAt(phase)
      stands.push(one)
      await kill([one])
    }
    await expectOneEach(victim, stands)

    // If no item serves a session, no dispatcher hears of its end. Its sandbox then stays until `park_ms` is
    // over.
    const parked = stands
      .map(({ session }) => session.id)
      .filter((id) => double.items.every(({ data, state }) => data.id !== id || state === 'stopped'))
    for (const { session } of stands) session.terminate()
    await expectItemsEnded(double)
    if (!victim.includes('worker'))
      for (const { session, phase } of stands)
        expect(await effectsOf(served, session), phase.name).toEqual(callsOf(session).map(markOf))
    const left = async () => (await served.sandboxes()).filter((id) => !parked.includes(id))
    await expect.poll(left, PATIENT).toEqual([])
    expect(await at.dispatcher.stop()).toBe(0)
    await expectNothingHeld(fleet)
  },
)

async function expectOneEach(victim: Victim, stands: readonly Standing[]): Promise<void> {
  const { served } = stands[0]!
  for (const { phase, session } of stands) {
    const calls = callsOf(session)
    const isLost = victim.includes('worker') && phase.name === 'a call runs'
    const texts = calls.map((call) => textOf(call).replace(NOTICE, ''))
    expect(texts, phase.name).toEqual([
      isLost ? expect.stringContaining('stopped during the call') : '1',
      '1',
    ])
    expect(
      calls.map(({ answers }) => answers),
      phase.name,
    ).toEqual([1, 1])
    // The row of a call whose worker was killed comes by way of the outbox, after its answer.
    const charged = async () => {
      const rows = await auditRows(served.fleet, 'acme')
      const ran = calls.map(
        ({ id }) => rows.filter((row) => row.tool_call_id === id && row.quota_charged).length,
      )
      return { phase: phase.name, ran }
    }
    await expect.poll(charged, PATIENT).toEqual({ phase: phase.name, ran: [1, 1] })
  }
}
