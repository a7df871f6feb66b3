/**
 * Two hundred sessions at once on two dispatchers and one worker, each with a different mixture of calls and
 * faults of the control plane. Then calls, answers, side effects, outputs and leftovers are checked.
 */
import { readdirSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { scheduleSeed } from '@cofferdam/embedded/testing'
import fc from 'fast-check'
import { expect, vi } from 'vitest'
import type { ToolCall } from '../../infra/doubles/managed-agents/tool-calls.ts'
import { startReceiver } from '../../libs/telemetry/test/otlp-receiver.ts'
import { startDispatcher } from '../dispatcher.ts'
import { auditRows, expectNothingHeld } from './accounts.ts'
import {
  isOurs,
  plans,
  SECOND_TURN,
  stepsOf,
  type Plan,
  type PlannedCall,
  type Trouble,
} from './crowd-plans.ts'
import {
  callsOf,
  effectsOf,
  expectItemsEnded,
  startServedFleet,
  textOf,
  type ServedFleet,
  type Session,
} from './served-fleet.ts'

const SESSIONS = 200
const PATIENT_MS = 400_000
const OTHERS = 'the answer of another client'

interface Attended {
  session: Session
  plan: Plan
}

function begin({ double }: ServedFleet, plan: Plan): Attended {
  const session = double.createSession({ script: stepsOf(plan) })
  const item = double.items.find(({ data }) => data.id === session.id)
  for (const trouble of plan.troubles)
    if ('fault' in trouble)
      double.inject({ ...trouble.fault, id: trouble.at === 'item' ? (item?.id ?? '') : session.id })
  return { session, plan }
}

/**
 * Plays the session's user, and the client that answers the calls which dispatchers leave alone. Expires
 * leases and adds items as planned. Resolves when the session's last turn is over.
 */
async function attend(served: ServedFleet, { session, plan }: Attended): Promise<void> {
  const strikes = plan.troubles.filter((one) => 'strike' in one)
  let isSecondTurn = plan.end !== 'second turn'
  for (;;) {
    for (const strike of strikes.splice(0)) {
      if (session.events.length < strike.atEvent) strikes.push(strike)
      else hit(served, session, strike)
    }
    for (const call of callsOf(session).filter(({ open }) => open)) react(session, call)
    if (plan.end === 'terminated' ? session.status === 'terminated' : session.isParked) {
      if (isSecondTurn) return
      isSecondTurn = true
      await untilDormant(served, session)
      session.send('Go on.')
    }
    const seen = session.events.length
    await session.until('an event', () => session.events.length > seen || session.isParked, PATIENT_MS)
  }
}

function react(session: Session, call: ToolCall): void {
  const { id, custom, name, permission, confirmation, input } = call
  if (permission === 'ask' && confirmation === null)
    return session.confirm(id, String(input['command']).includes('refused') ? 'deny' : 'allow')
  if (name === 'bash') return
  const content = [{ type: 'text' as const, text: OTHERS }]
  if (custom) session.post([{ type: 'user.custom_tool_result', custom_tool_use_id: id, content }])
  else session.post([{ type: 'user.tool_result', tool_use_id: id, content }])
}

function hit(served: ServedFleet, session: Session, { strike }: Extract<Trouble, { strike: string }>): void {
  if (strike === 'second item') served.double.enqueue(session)
  else for (const item of itemsOf(served, session)) item.expire()
}

const itemsOf = ({ double }: ServedFleet, { id }: Session) =>
  double.items.filter(({ data }) => data.id === id)

/**
 * No dispatcher would hear of a message that comes while an item is being stopped. So this waits until all
 * items of the session are stopped.
 */
const untilDormant = (served: ServedFleet, session: Session): Promise<void> =>
  vi.waitFor(() => expect(itemsOf(served, session).every(({ state }) => state === 'stopped')).toBe(true), {
    timeout: PATIENT_MS,
    interval: 100,
  })

/** The marks of the session's calls that run in its sandbox. */
const marksOf = ({ steps, end }: Plan): string[] => [
  ...steps
    .flat()
    .filter(isOurs)
    .map(({ mark }) => mark),
  ...(end === 'second turn' ? [SECOND_TURN] : []),
]

/** The text that the agent must read. Null for a call that nobody may answer. */
function expectedText({ kind }: PlannedCall): string | RegExp | null {
  if (kind === 'denied' || kind === 'refused by its user') return null
  if (kind === 'unknown' || kind === 'custom') return OTHERS
  if (kind === 'long') return /^\[output truncated\][^]{100000,}\n1$/
  return kind === 'prying' ? /^HOME=|\nHOME=[^]*\n1$/ : '1'
}

const plannedOf = ({ steps, end }: Plan): PlannedCall[] => [
  ...steps.flat(),
  ...(end === 'second turn' ? [{ kind: 'plain' as const, mark: SECOND_TURN }] : []),
]

/**
 * Two hundred sessions call at once. On a slow machine, a call may wait for a slot for 120 s, and then the
 * SDK gives it up. The call is then cancelled, and its sandbox ends too.
 */
const isGivenUp = (call: ToolCall | undefined): boolean => textOf(call).includes('the call was cancelled')

function expectAnswers({ session, plan }: Attended): void {
  const calls = callsOf(session)
  const planned = plannedOf(plan)
  expect(calls).toHaveLength(planned.length)
  for (const [n, one] of planned.entries()) {
    const [call, text] = [calls[n], expectedText(one)]
    if (isGivenUp(call)) continue
    if (text === null) expect(call?.answers, one.mark).toBe(0)
    else if (typeof text === 'string') expect(textOf(call), one.mark).toBe(text)
    else expect(textOf(call), one.mark).toMatch(text)
    if (isOurs(one)) expect(call?.result?.isError, one.mark).toBe(false)
  }
}

needs('process-namespaces').it(
  `${SESSIONS} sessions at once have each call answered and run once, whatever goes wrong`,
  { timeout: 600_000 },
  async () => {
    const seed = scheduleSeed()
    console.info(`seed ${seed}`)
    const startedMs = performance.now()
    const told = (what: string): void =>
      console.info(`${Math.round(performance.now() - startedMs)} ms: ${what}`)
    await using resources = new AsyncDisposableStack()
    const receiver = resources.adopt(await startReceiver(), (one) => one.close())
    const served = resources.use(await startServedFleet({ ttl_seconds: 20, reclaim_ms: 2000 }))
    const { fleet, double } = served
    const watched = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, COFFERDAM_TRACE_SAMPLE_RATIO: '0.05' }
    const file = join(fleet.dataDir, 'worker.yaml')
    await writeFile(file, JSON.stringify({ warm: { cells: { max: SESSIONS + 56 } } }))
    const worker = await fleet.startWorker({
      ...watched,
      COFFERDAM_CONFIG: file,
      COFFERDAM_BACKENDS: 'process',
      COFFERDAM_SLOTS: '6',
      COFFERDAM_MEMORY_BUDGET_MIB: String((SESSIONS + 56) * 64),
    })
    const folder = join(fleet.dataDir, 'tmp')
    await mkdir(folder)
    const attended = fc.sample(plans, { seed, numRuns: SESSIONS }).map((plan) => begin(served, plan))
    for (let n = 0; n < 10; n++) double.enqueue('healthcheck')
    const dispatchers = await Promise.all(
      [1, 2].map(() =>
        startDispatcher(fleet, double, {
          environment: { max_sessions: SESSIONS / 2, max_idle_ms: 2000 },
          env: { ...watched, TMPDIR: folder, COFFERDAM_LOG_LEVEL: 'debug' },
        }),
      ),
    )
    told('dispatchers poll')
    await Promise.all(attended.map((one) => attend(served, one)))
    told('all turns are over')
    await expectItemsEnded(double)
    told('all items have ended')

    for (const one of attended) expectAnswers(one)
    const ids = new Set(attended.flatMap(({ session }) => callsOf(session).map(({ id }) => id)))
    const rows = await auditRows(fleet, 'acme')
    const ran = rows.filter((row) => row.tool_call_id !== null && row.quota_charged)
    expect(new Set(ran.map(({ tool_call_id }) => tool_call_id)).size).toBe(ran.length)
    expect(ran.filter(({ tool_call_id }) => !ids.has(tool_call_id ?? ''))).toEqual([])
    const whole = attended.filter(({ session }) => !callsOf(session).some(isGivenUp))
    expect(whole.length).toBeGreaterThan(SESSIONS / 2)
    for (const { session, plan } of whole)
      expect((await effectsOf(served, session)).toSorted()).toEqual(marksOf(plan).toSorted())
    told(`${ran.length} calls ran once, in ${SESSIONS - whole.length} sessions the SDK gave a call up`)

    const ended = new Set(
      attended.filter(({ plan }) => plan.end === 'terminated').map(({ session }) => session.id),
    )
    const leftOver = async () => (await served.sandboxes()).filter((key) => ended.has(key))
    await expect.poll(leftOver, { timeout: 60_000, interval: 200 }).toEqual([])
    for (const dispatcher of dispatchers) expect(await dispatcher.stop()).toBe(0)
    expect(readdirSync(folder)).toEqual([])
    await expectNothingHeld(fleet)
    expect(await worker.stop()).toBe(0)
    expectNoKey(served, [
      ...attended.flatMap(({ session }) => callsOf(session).map(textOf)),
      ...dispatchers.map((one) => one.log()),
      worker.log(),
      JSON.stringify(rows),
      ...receiver.bodies.map(({ body }) => body.toString('latin1')),
    ])
    const repeated = attended.flatMap(({ session }) => callsOf(session)).filter(({ answers }) => answers > 1)
    told(`${repeated.length} calls had an answer posted again`)
  },
)

/** Expects that no text contains the environment key or a secret of an item. */
function expectNoKey({ double }: ServedFleet, texts: readonly string[]): void {
  const withKey = texts.filter(
    (text) => text.includes(double.environmentKey) || /sk-ant-(oat|req)/.test(text),
  )
  expect(withKey.map((text) => text.slice(0, 500))).toEqual([])
}
