/**
 * One session: its events, its subscribers, and what its agent waits for.
 *
 *   idle ──message──► running ──tool uses──► idle (requires_action) ──all answered──► running
 *     ▲                  │
 *     └──── end_turn ────┘          from anywhere: terminated (also by archiving), deleted
 *
 * Published (SDK resources/beta/sessions/{sessions,events}.ts): all fields, that sessions start idle, that
 * the idle event is repeated with the remaining calls if only some are answered, that a delete ends the
 * streams, and that an archived session is terminated (lib/environments/worker.ts).
 */
import type {
  BetaManagedAgentsSessionStatusIdleEvent,
  BetaManagedAgentsUserToolResultEventParams,
} from '@anthropic-ai/sdk/resources/beta/sessions/events'
import type { BetaManagedAgentsSession } from '@anthropic-ai/sdk/resources/beta/sessions/sessions'
import { EventLog, type SessionEvent } from './event-log.ts'
import { textOf, type PostedEvent } from './posted-events.ts'
import { newId, stamp } from './stamps-and-ids.ts'
import { ToolCalls, type ToolCall } from './tool-calls.ts'
import { badRequest } from './wire-errors.ts'

export type StopReason = BetaManagedAgentsSessionStatusIdleEvent['stop_reason']
/** A posted event in the history. */
export type PostResult = Extract<SessionEvent, { type: PostedEvent['type'] }>

/** Thrown into an agent whose session has ended. */
export class SessionOver extends Error {}

export interface SessionProfile {
  environmentId: string
  agentId: string
  title: string | null
  metadata: Record<string, string>
  skills: BetaManagedAgentsSession['agent']['skills']
  resources: BetaManagedAgentsSession['resources']
  /** Called after a message, to queue a work item if nobody serves the session. */
  onMessage: (session: Session) => void
}

export class Session extends EventLog {
  readonly id = newId('sesn')
  readonly profile: SessionProfile
  readonly calls = new ToolCalls()
  /** Texts of messages that the agent has not read. */
  readonly inbox: string[] = []
  readonly created_at = stamp()
  status: BetaManagedAgentsSession['status'] = 'idle'
  archived_at: string | null = null
  isDeleted = false
  /** Whether the agent has nothing to do until the next message. */
  isParked = false

  constructor(profile: SessionProfile) {
    super()
    this.profile = profile
  }

  /** All tool calls by their ID. `result` is null in a call that has not been answered. */
  get results(): ReadonlyMap<string, ToolCall> {
    return this.calls.byId
  }

  /** Adds posted events. All or none: throws a 400 if one does not fit. */
  post(posted: readonly PostedEvent[]): PostResult[] {
    if (this.status === 'terminated') throw badRequest('the session is terminated and takes no more events')
    this.calls.check(posted)
    const openBefore = this.calls.open().length
    const added = posted.map((event) => this.#apply(event))
    const open = this.calls.open()
    const isAnswered = openBefore > 0 && posted.some(({ type }) => type !== 'user.message')
    if (isAnswered) this.append(...added.flat(), open.length > 0 ? waitingFor(open) : this.#run())
    else this.append(...added.flat())
    if (posted.some(({ type }) => type === 'user.message')) this.profile.onMessage(this)
    return added.map(([event]) => event)
  }

  /** A user's message. */
  send(text: string): void {
    this.post([{ type: 'user.message', content: [{ type: 'text', text }] }])
  }

  /** Allows or denies a tool use whose permission is `ask`. */
  confirm(toolUseId: string, result: 'allow' | 'deny', why?: string): void {
    const deny = why === undefined ? {} : { deny_message: why }
    this.post([{ type: 'user.tool_confirmation', tool_use_id: toolUseId, result, ...deny }])
  }

  terminate(): void {
    if (this.status === 'terminated') return
    this.status = 'terminated'
    this.calls.closeAll()
    this.append({ type: 'session.status_terminated', id: newId('sevt'), processed_at: stamp() })
  }

  archive(): void {
    this.archived_at ??= stamp()
    this.terminate()
  }

  /** Ends its streams. From now on every call for it is answered with 404. */
  delete(): void {
    this.isDeleted = true
    this.calls.closeAll()
    this.append({ type: 'session.deleted', id: newId('sevt'), processed_at: stamp() })
  }

  /** Emits `session.status_running` unless the session runs. */
  run(): void {
    if (this.status !== 'running') this.append(this.#run())
  }

  /** Emits the tool uses. Then emits the idle event that waits for the open ones, if there are any. */
  ask(uses: readonly SessionEvent[], open: readonly ToolCall[]): void {
    this.status = open.length > 0 ? 'idle' : this.status
    this.append(...uses, ...(open.length > 0 ? [waitingFor(open)] : []))
  }

  /** Ends the turn. */
  idle(reason: StopReason): void {
    this.status = 'idle'
    this.append(idleEvent(reason))
  }

  /** Resolves when the agent waits for the next message. */
  async untilIdle(): Promise<void> {
    await this.until('the agent to be idle', () => this.isParked && this.status === 'idle')
  }

  /** Resolves with the calls that the agent waits for, once there are at least `count`. */
  async untilAsked(count = 1): Promise<ToolCall[]> {
    await this.until('tool uses', () => this.calls.open().length >= count)
    return this.calls.open()
  }

  /** Resolves with all answered calls, once `wanted` of them exist or all `wanted` IDs are among them. */
  async untilAnswered(wanted: number | readonly string[] = 1): Promise<ToolCall[]> {
    const answered = (): ToolCall[] => [...this.calls.byId.values()].filter(({ result }) => result !== null)
    await this.until('answers', () => {
      const ids = answered().map(({ id }) => id)
      return typeof wanted === 'number' ? ids.length >= wanted : wanted.every((id) => ids.includes(id))
    })
    return answered()
  }

  #run(): SessionEvent {
    this.status = 'running'
    return { type: 'session.status_running', id: newId('sevt'), processed_at: stamp() }
  }

  /**
   * Applies an event that a client posted. Returns it as it enters the history. If it denies a tool call,
   * also the tool result that the service adds.
   */
  #apply(posted: PostedEvent): [PostResult, ...SessionEvent[]] {
    const event = { ...posted, id: newId('sevt'), processed_at: stamp() } as PostResult
    if (posted.type === 'user.message') {
      this.inbox.push(textOf(posted))
      this.isParked = false
      return [event]
    }
    const id = posted.type === 'user.custom_tool_result' ? posted.custom_tool_use_id : posted.tool_use_id
    const call = this.calls.byId.get(id)
    if (call === undefined) return [event]
    if (posted.type === 'user.tool_confirmation') {
      call.confirmation = posted.result
      if (posted.result === 'allow') return [event]
      call.open = false
      return [event, refusalOf(call, posted.deny_message ?? 'The user denied this call.')]
    }
    const content = (posted.content ?? []) as NonNullable<
      BetaManagedAgentsUserToolResultEventParams['content']
    >
    call.result = { content, isError: posted.is_error ?? false }
    call.open = false
    return [event]
  }
}

const idleEvent = (reason: StopReason): SessionEvent => ({
  type: 'session.status_idle',
  id: newId('sevt'),
  processed_at: stamp(),
  stop_details: null,
  stop_reason: reason,
})

const waitingFor = (open: readonly ToolCall[]): SessionEvent =>
  idleEvent({ type: 'requires_action', event_ids: open.map(({ id }) => id) })

/** "A synthetic error tool result is appended" (`BetaManagedAgentsAgentAutoEvaluatedPermissionDeny`). */
export const refusalOf = (call: ToolCall, why: string): SessionEvent => ({
  type: 'agent.tool_result',
  id: newId('sevt'),
  processed_at: stamp(),
  tool_use_id: call.id,
  is_error: true,
  content: [{ type: 'text', text: why }],
})
