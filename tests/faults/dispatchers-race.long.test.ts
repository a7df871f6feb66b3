/**
 * Several dispatchers serve one environment whose leases end at random, whose acknowledgements come late and
 * whose sessions get second items. Each call still has one answer and one side effect.
 */
import { needs } from '@cofferdam/embedded/needs'
import { scheduleSeed } from '@cofferdam/embedded/testing'
import fc from 'fast-check'
import { expect } from 'vitest'
import { startDispatcher } from '../dispatcher.ts'
import { expectNothingHeld } from './accounts.ts'
import {
  bash,
  callsOf,
  effect,
  effectsOf,
  expectItemsEnded,
  startServedFleet,
  textOf,
  type ServedFleet,
  type Session,
} from './served-fleet.ts'

const DISPATCHERS = 3
const SESSIONS = 30
const CALLS = 6
const PATIENT = 180_000

/** What happens to the session's items, and after how many events of the session. */
const blowSchema = fc.record({
  atEvent: fc.integer({ min: 1, max: 4 * CALLS }),
  kind: fc.constantFrom('expire', 'expire', 'expire', 'second item', 'late acknowledgement'),
})
type Blow = typeof blowSchema extends fc.Arbitrary<infer T> ? T : never

function strike({ double }: ServedFleet, session: Session, { kind }: Blow): void {
  const items = double.items.filter(({ data }) => data.id === session.id)
  if (kind === 'second item') return void double.enqueue(session)
  for (const item of items) {
    if (kind === 'late acknowledgement')
      double.inject({ kind: 'delay', route: 'work.ack', before: true, ms: 1500, id: item.id })
    item.expire()
  }
}

async function play(served: ServedFleet, session: Session, blows: readonly Blow[]): Promise<void> {
  for (const blow of blows.toSorted((a, b) => a.atEvent - b.atEvent)) {
    const { atEvent } = blow
    await session.until(`event ${atEvent}`, () => session.events.length >= atEvent, PATIENT)
    strike(served, session, blow)
  }
  const isDone = (): boolean => callsOf(session).filter(({ result }) => result !== null).length === CALLS
  await session.until('all answers', isDone, PATIENT)
}

needs('process-namespaces').it(
  `${DISPATCHERS} dispatchers answer each call once while leases of ${SESSIONS} sessions end at random`,
  { timeout: 300_000 },
  async () => {
    const seed = scheduleSeed()
    console.info(`seed ${seed}`)
    const plans = fc.sample(fc.array(blowSchema, { minLength: 1, maxLength: 4 }), { seed, numRuns: SESSIONS })
    await using served = await startServedFleet({ ttl_seconds: 300, reclaim_ms: 500 })
    const { fleet, double } = served
    await fleet.startWorker({ COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '6' })
    const environment = { max_sessions: SESSIONS, max_idle_ms: 2000 }
    const dispatchers = await Promise.all(
      Array.from({ length: DISPATCHERS }, () => startDispatcher(fleet, double, { environment })),
    )
    const marks = Array.from({ length: CALLS }, (_, n) => `call-${n}`)
    const sessions = plans.map(() =>
      double.createSession({ script: marks.map((mark) => bash(effect(mark, 'sleep 0.2'))) }),
    )
    await Promise.all(sessions.map((session, n) => play(served, session, plans[n] ?? [])))

    const calls = sessions.flatMap(callsOf)
    expect(calls.map(textOf)).toEqual(calls.map(() => '1'))
    expect(calls.filter(({ result }) => result?.isError)).toEqual([])
    expect(calls.filter(({ answers }) => answers !== 1)).toEqual([])
    await expectItemsEnded(double)
    for (const session of sessions) expect(await effectsOf(served, session)).toEqual(marks)
    for (const dispatcher of dispatchers) expect(await dispatcher.stop()).toBe(0)
    await expectNothingHeld(fleet)
  },
)
