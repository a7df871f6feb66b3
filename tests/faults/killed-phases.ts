/** Phases of a session in which the dispatcher or the worker that serves it is killed. */
import { expect } from 'vitest'
import type { SessionOptions } from '../../infra/doubles/managed-agents/control-plane.ts'
import type { FaultInput } from '../../infra/doubles/managed-agents/faults.ts'
import type { ManagedAgentsDouble } from '../../infra/doubles/managed-agents/managed-agents-double.ts'
import { bash, callsOf, effect, type ServedFleet, type Session } from './served-fleet.ts'

type Environment = ReturnType<ManagedAgentsDouble['createEnvironment']>

export interface Held {
  served: ServedFleet
  environment: Environment
  session: Session
}

export interface Phase {
  name: string
  options: SessionOptions
  /** Settings of the phase's environment. */
  settings?: Record<string, unknown>
  /** The fault that holds the session in this phase until the faults of the double are cleared. */
  hold?(held: Held): FaultInput
  /** Resolves when the session has reached this phase. */
  reached(held: Held): Promise<unknown>
  /** What the user does after the kill, so that the session goes on. */
  goOn?(held: Held): void
}

const PATIENT = { timeout: 60_000, interval: 20 }
/** Longer than any test. The kill ends it, or the test clears it. */
const HELD_MS = 600_000

const itemOf = ({ served, session }: Held) => served.double.items.find(({ data }) => data.id === session.id)
const storeOf = ({ session }: Held): string =>
  session.profile.resources.map((one) => (one.type === 'memory_store' ? one.memory_store_id : ''))[0] ?? ''

/**
 * The double holds this call back. With `before` it has not carried the call out yet. Otherwise it has, and
 * holds back the answer.
 */
const held =
  (route: string, before: boolean, idOf: (held: Held) => string | undefined): NonNullable<Phase['hold']> =>
  (at) => ({ kind: 'delay', route, before, ms: HELD_MS, id: idOf(at) ?? 'none' })

/** Resolves when the double has received a request for this route and ID. */
const asked =
  (route: string, idOf: (held: Held) => string | undefined): Phase['reached'] =>
  async (at) =>
    expect
      .poll(
        () =>
          at.served.double.requests.some(
            (one) => one.route === route && one.path.split('/').includes(idOf(at) ?? 'none'),
          ),
        PATIENT,
      )
      .toBe(true)

const ofItem = (at: Held): string | undefined => itemOf(at)?.id
const ofSession = ({ session }: Held): string => session.id
const running =
  (agentId: string): Phase['reached'] =>
  ({ served }) =>
    expect.poll(() => served.statesOf(agentId), PATIENT).toContain('running')

const effects = [bash(effect('first')), bash(effect('second'))]
const ask = {
  tool_use: { name: 'bash', input: { command: effect('asked') }, evaluated_permission: 'ask' },
} as const
const confirm: Phase['goOn'] = ({ session }) => {
  for (const { id } of callsOf(session).filter(({ open }) => open)) session.confirm(id, 'allow')
}

/**
 * Phases of an item on its way from the control plane to a dispatcher. Each one blocks further polls of its
 * environment.
 */
export const CLAIMING: readonly Phase[] = [
  {
    name: 'the answer of a poll is on its way',
    options: { script: effects },
    hold: held('work.poll', false, ({ environment }) => environment.id),
    reached: async (at) => expect.poll(() => itemOf(at)?.deliveries, PATIENT).toBe(1),
  },
  {
    name: 'the acknowledgement is on its way',
    options: { script: effects },
    hold: held('work.ack', true, ofItem),
    reached: asked('work.ack', ofItem),
  },
  {
    name: 'the answer to the acknowledgement is on its way',
    options: { script: effects },
    hold: held('work.ack', false, ofItem),
    reached: async (at) => expect.poll(() => itemOf(at)?.state, PATIENT).toBe('starting'),
  },
]

/** From a claimed item to its end. */
export const SERVING: readonly Phase[] = [
  {
    name: 'the session was not read',
    options: { script: effects },
    hold: held('sessions.retrieve', true, ofSession),
    reached: asked('sessions.retrieve', ofSession),
  },
  {
    name: 'a call waits for memories and is not enqueued',
    options: { script: effects, memoryStores: [{ name: 'team', memories: { '/a.md': 'a' } }] },
    hold: held('memories.list', true, storeOf),
    reached: asked('memories.list', storeOf),
  },
  {
    name: 'a result was not posted',
    options: { script: effects },
    hold: held('events.send', true, ofSession),
    reached: asked('events.send', ofSession),
  },
  {
    name: 'a result was posted and the answer is on its way',
    options: { script: effects },
    hold: held('events.send', false, ofSession),
    reached: ({ session }) => session.until('an answer', () => callsOf(session)[0]?.result != null, 60_000),
  },
  {
    name: 'the last result was posted and its outputs were not kept',
    options: { script: effects },
    hold: (at) => ({ kind: 'delay', route: 'events.send', nth: 2, ms: HELD_MS, id: at.session.id }),
    reached: ({ session }) => session.until('two answers', () => callsOf(session)[1]?.result != null, 60_000),
  },
  {
    name: 'a call waits for its confirmation',
    options: { script: [bash(effect('first')), ask] },
    reached: async ({ session }) =>
      session.until(
        'a confirmation',
        () => callsOf(session).some(({ permission }) => permission === 'ask'),
        60_000,
      ),
    goOn: confirm,
  },
  {
    name: 'the turn is over',
    options: { script: [bash(effect('first')), { idle: 'end_turn' }, bash(effect('second'))] },
    reached: ({ session }) => session.until('its end', () => session.isParked, 60_000),
    goOn: ({ session }) => session.send('Go on.'),
  },
  {
    name: 'the item is being stopped',
    options: { script: effects },
    settings: { max_idle_ms: 1000 },
    hold: held('work.stop', true, ofItem),
    reached: asked('work.stop', ofItem),
  },
  {
    name: 'the session has ended and its sandbox has not',
    options: { script: [...effects, { terminate: true }] },
    hold: held('work.stop', true, ofItem),
    reached: asked('work.stop', ofItem),
  },
]

/** Outputs that take a while to collect: 14 MiB of at most 16, in files of at most 8. */
const KEEPING = 'for n in 1 2; do head -c 7340032 /dev/urandom > /mnt/session/outputs/$n; done'
const BIG_SKILL = { name: 'big', files: { 'SKILL.md': 'big', ...parts(4) } }

/**
 * Phases that no request to the double shows. Each begins after the sessions of the phases above have reached
 * theirs.
 */
export const RUNNING: readonly Phase[] = [
  {
    name: 'the sandbox is prepared',
    options: { script: effects, skills: [BIG_SKILL] },
    settings: { agent_id: 'preparing' },
    reached: running('preparing'),
  },
  {
    name: 'outputs are collected',
    options: {
      script: [bash(effect('first', KEEPING)), ask],
    },
    settings: { agent_id: 'collecting' },
    reached: async (at) => {
      await at.session.until('the first call', () => callsOf(at.session)[0]?.result != null, 60_000)
      // A file operation has no point of no return, so the queue does not call it running.
      await expect.poll(() => at.served.statesOf('collecting'), PATIENT).not.toEqual([])
    },
    goOn: confirm,
  },
  {
    name: 'a call runs',
    options: { agentId: 'calling', script: [bash(effect('first', 'sleep 6')), bash(effect('second'))] },
    reached: running('calling'),
  },
]

/** Files of 3 MiB. Writing them into a sandbox takes longer than the test needs to see it. */
function parts(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, n) => [`part-${n}`, String(n).repeat(3 << 20)]))
}
