/**
 * A fleet whose sandboxes serve sessions of the double of Managed Agents, and helpers that read what the
 * sessions did.
 */
import { expect } from 'vitest'
import {
  startManagedAgents,
  type ManagedAgentsDouble,
} from '../../infra/doubles/managed-agents/managed-agents-double.ts'
import type { Settings } from '../../infra/doubles/managed-agents/settings.ts'
import type { ToolCall } from '../../infra/doubles/managed-agents/tool-calls.ts'
import { startFleet, type Fleet } from '../fleet.ts'

export type Session = ReturnType<ManagedAgentsDouble['createSession']>

export interface ServedFleet extends AsyncDisposable {
  fleet: Fleet
  double: ManagedAgentsDouble
  /** The states of the executions of this agent that have not ended. */
  statesOf(agentId: string): Promise<string[]>
  /** The newest version of a session's output. Empty without one. */
  output(session: Session, path: string): Promise<string>
  /** Keys of the sessions that have a sandbox. */
  sandboxes(): Promise<string[]>
}

/** Starts everything but workers and dispatchers. Makes the tenant `acme`, which the dispatchers serve. */
export async function startServedFleet(settings: Partial<Settings> = {}): Promise<ServedFleet> {
  await using owned = new AsyncDisposableStack()
  const fleet = owned.use(await startFleet())
  await fleet.createTenant('acme', {
    policy: { min_isolation: 'none' },
    caps: { tenant_daily: 1_000_000, agent_hourly: 1_000_000, concurrency: 64 },
  })
  const { key } = await fleet.store.keys.create({ tenant_id: 'acme' }, 'test')
  const api = await fleet.runApi()
  const double = owned.use(await startManagedAgents(settings))
  const ask = (path: string): Promise<Response> =>
    fetch(`${api.url}/v1${path}`, { headers: { authorization: `Bearer ${key}` } })
  const resources = owned.move()
  return {
    fleet,
    double,
    async statesOf(agentId) {
      const answer = await ask(`/executions?status=live&agent_id=${agentId}`)
      const { executions } = (await answer.json()) as { executions: { status: string }[] }
      return executions.map(({ status }) => status)
    },
    async output({ id }, path) {
      const answer = await ask(`/sessions/${id}/outputs/${path}`)
      return answer.ok ? await answer.text() : ''
    },
    async sandboxes() {
      const { sessions } = (await (await ask('/sessions')).json()) as { sessions: { key: string }[] }
      return sessions.map((one) => one.key)
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  }
}

/** The output file that has a line for each time that a command of `effect` ran. */
export const EFFECTS = 'effects'
const EFFECTS_FILE = `/mnt/session/outputs/${EFFECTS}`

/** A command with a side effect. It then runs `then`, and prints how often the effect has happened. */
export const effect = (mark: string, then = ':'): string =>
  `echo ${mark} >> ${EFFECTS_FILE}; ${then}; grep -cx ${mark} ${EFFECTS_FILE}`

export const bash = (command: string) => ({ tool_use: { name: 'bash', input: { command } } })

export const callsOf = (session: Session): ToolCall[] => [...session.results.values()]

export const textOf = (call: ToolCall | undefined): string =>
  (call?.result?.content ?? []).map((block) => (block.type === 'text' ? block.text : '')).join('')

/** What the agent reads first when its session has a new sandbox. */
export const NOTICE = /^\[This session has a new sandbox since the last call\.[^\]]*\]\n/

/** The marks that were left in the session's sandbox, in order, according to its kept outputs. */
export const effectsOf = async (served: ServedFleet, session: Session): Promise<string[]> =>
  (await served.output(session, EFFECTS)).split('\n').filter((line) => line !== '')

/** Expects that all work items have ended. */
export async function expectItemsEnded({ items }: ManagedAgentsDouble): Promise<void> {
  const left = (): string[] =>
    items.filter(({ state }) => state !== 'stopped').map(({ id, state }) => `${id} ${state}`)
  await expect.poll(left, { timeout: 60_000, interval: 100 }).toEqual([])
}
