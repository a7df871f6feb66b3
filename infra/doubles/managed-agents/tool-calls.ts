/** The tool calls of a session: what the agent asked for, who allowed it, and how it was answered. */
import type {
  BetaManagedAgentsAgentToolUseEvent,
  BetaManagedAgentsUserToolResultEventParams,
} from '@anthropic-ai/sdk/resources/beta/sessions/events'
import type { PostedEvent } from './posted-events.ts'
import { badRequest } from './wire-errors.ts'

export type Permission = NonNullable<BetaManagedAgentsAgentToolUseEvent['evaluated_permission']>
export type ResultContent = NonNullable<BetaManagedAgentsUserToolResultEventParams['content']>

export interface ToolCall {
  /** Of the `agent.tool_use` or `agent.custom_tool_use` event. */
  id: string
  name: string
  input: Record<string, unknown>
  /** Whether the event is an `agent.custom_tool_use`. */
  custom: boolean
  permission: Permission
  confirmation: 'allow' | 'deny' | null
  /** How many results were posted for it, including refused ones. */
  answers: number
  result: { content: ResultContent; isError: boolean } | null
  /** Whether the agent waits for it. */
  open: boolean
}

export class ToolCalls {
  readonly byId = new Map<string, ToolCall>()

  open(): ToolCall[] {
    return [...this.byId.values()].filter(({ open }) => open)
  }

  add(call: ToolCall): void {
    this.byId.set(call.id, call)
  }

  closeAll(): void {
    for (const call of this.byId.values()) call.open = false
  }

  /**
   * Throws a 400 if one of the posted events does not fit the calls. Nothing is published about these
   * refusals. They are the strict reading: a result belongs to one call of its kind, once, and only after
   * the call was allowed.
   */
  check(events: readonly PostedEvent[]): void {
    const seen = new Set<string>()
    for (const event of events) {
      if (event.type === 'user.message') continue
      const id = event.type === 'user.custom_tool_result' ? event.custom_tool_use_id : event.tool_use_id
      const call = this.byId.get(id)
      if (call === undefined) throw badRequest(`no tool use has the id ${JSON.stringify(id.slice(0, 80))}`)
      const isResult = event.type !== 'user.tool_confirmation'
      if (isResult) call.answers += 1
      const isRepeated = seen.size === seen.add(`${isResult} ${id}`).size
      const why = isRepeated
        ? 'the request has another event for it'
        : isResult
          ? whyNoResult(call, event)
          : whyNoVerdict(call)
      if (why !== null) throw badRequest(`${event.type} for ${id}: ${why}`)
    }
  }
}

function whyNoResult(call: ToolCall, event: PostedEvent): string | null {
  const fits = event.type === (call.custom ? 'user.custom_tool_result' : 'user.tool_result')
  if (!fits) return `it needs a ${call.custom ? 'user.custom_tool_result' : 'user.tool_result'}`
  if (call.result !== null) return 'it was answered before'
  if (call.permission === 'deny' || call.confirmation === 'deny') return 'it was denied'
  if (call.permission === 'ask' && call.confirmation === null) return 'it waits for a confirmation'
  return call.open ? null : 'nothing waits for it'
}

function whyNoVerdict(call: ToolCall): string | null {
  if (call.permission !== 'ask') return 'it needs no confirmation'
  if (call.confirmation !== null) return 'it was confirmed or denied before'
  return call.open ? null : 'nothing waits for it'
}
