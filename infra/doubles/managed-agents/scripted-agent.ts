/**
 * An agent without a model. It plays a script, or runs a program that a test or the chat gives it: it asks
 * for tool uses, waits for their results, and ends its turns, with the events that the service would emit.
 */
import { newId, stamp } from './stamps-and-ids.ts'
import { refusalOf, SessionOver, type Session, type StopReason } from './session.ts'
import type { SessionEvent } from './event-log.ts'
import type { Permission, ToolCall } from './tool-calls.ts'

export interface ToolUse {
  /** Any name, also one that no worker knows. */
  name: string
  input?: Record<string, unknown>
  /** Default `allow`. `ask` waits for a confirmation, `deny` never runs. */
  evaluated_permission?: Permission
  /** An `agent.custom_tool_use` instead of an `agent.tool_use`. */
  custom?: boolean
}

/** One step of a script. */
export type Step =
  | { tool_use: ToolUse }
  /** Several at once. The session is idle until all are answered. */
  | { tool_uses: readonly ToolUse[] }
  | { message: string }
  /** Ends the turn, and goes on with the next message of the user. */
  | { idle: 'end_turn' | 'retries_exhausted' | 'budget_reached' | 'refusal' }
  /** Goes on when a worker reads the session's event stream. */
  | { wait: 'stream' }
  | { terminate: true }

export interface Agent {
  /** Asks for tool uses, and resolves with their calls when each has a result or is denied. */
  useTools(...uses: readonly ToolUse[]): Promise<ToolCall[]>
  say(text: string): void
  endTurn(reason?: StopReason['type']): void
  /** The text of the next message of the user. */
  nextMessage(): Promise<string>
  untilStream(): Promise<void>
  terminate(): void
}

/** What a test gives instead of a script. When it returns, the turn ends. */
export type AgentProgram = (agent: Agent) => Promise<void>

/**
 * Runs the program. When it returns, the agent answers each message that the script is over, until the
 * session ends. If the program throws, the session is terminated.
 */
export async function runAgent(session: Session, program: AgentProgram): Promise<void> {
  const agent = agentOf(session)
  try {
    await program(agent)
    for (;;) {
      if (session.status !== 'idle') agent.endTurn()
      await agent.nextMessage()
      agent.say('The script of this session is over.')
    }
  } catch (error) {
    if (error instanceof SessionOver) return
    session.failure = error instanceof Error ? error : new Error(String(error))
    session.terminate()
  }
}

/** The program that plays a script. */
export const playScript =
  (steps: readonly Step[]): AgentProgram =>
  async (agent) => {
    for (const step of steps) {
      if ('tool_use' in step) await agent.useTools(step.tool_use)
      else if ('tool_uses' in step) await agent.useTools(...step.tool_uses)
      else if ('message' in step) agent.say(step.message)
      else if ('wait' in step) await agent.untilStream()
      else if ('terminate' in step) agent.terminate()
      else {
        agent.endTurn(step.idle)
        await agent.nextMessage()
      }
    }
  }

function agentOf(session: Session): Agent {
  /** Throws if the session has ended, even if the agent was not waiting at that moment. */
  const requireLife = (): void => {
    if (session.isDeleted || session.status === 'terminated') throw new SessionOver('the session has ended')
  }
  const until = async (holds: () => boolean): Promise<void> => {
    for (requireLife(); !holds(); requireLife()) await session.change()
  }
  return {
    async useTools(...uses) {
      requireLife()
      session.run()
      const asked = uses.map(askedFor)
      const open = asked.filter(({ call }) => call.open).map(({ call }) => call)
      for (const { call } of asked) session.calls.add(call)
      session.ask(
        asked.flatMap(({ events }) => events),
        open,
      )
      await until(() => open.every((call) => !call.open))
      return asked.map(({ call }) => call)
    },
    say(text) {
      requireLife()
      session.run()
      const content = [{ type: 'text' as const, text }]
      session.append({ type: 'agent.message', id: newId('sevt'), processed_at: stamp(), content })
    },
    endTurn(type = 'end_turn') {
      requireLife()
      session.idle(type === 'requires_action' ? { type, event_ids: [] } : { type })
    },
    async nextMessage() {
      session.isParked = session.inbox.length === 0
      session.wake()
      await until(() => session.inbox.length > 0)
      return session.inbox.shift() ?? ''
    },
    untilStream: () => until(() => session.streams > 0),
    terminate: () => session.terminate(),
  }
}

/** The call, and its events: the use, and the refusal that follows a denied one. */
function askedFor(use: ToolUse): { call: ToolCall; events: SessionEvent[] } {
  const { name, input = {}, evaluated_permission: permission = 'allow', custom = false } = use
  const shared = { id: newId('sevt'), processed_at: stamp(), name, input }
  const call: ToolCall = {
    id: shared.id,
    name,
    input,
    custom,
    permission: custom ? 'allow' : permission,
    confirmation: null,
    answers: 0,
    result: null,
    open: custom || permission !== 'deny',
  }
  if (custom) return { call, events: [{ type: 'agent.custom_tool_use', ...shared }] }
  const event: SessionEvent = { type: 'agent.tool_use', ...shared, evaluated_permission: permission }
  // Without `evaluation`, as when the service "refused the call before any policy applied".
  if (permission === 'deny') return { call, events: [event, refusalOf(call, 'This call is not permitted.')] }
  const evaluation = { type: permission === 'ask' ? ('always_ask' as const) : ('always_allow' as const) }
  return { call, events: [{ ...event, evaluation }] }
}
