/** The tools of a session as the SDK's runner calls them: by name, each call an execution in the sandbox. */
import { setTimeout as after } from 'node:timers/promises'
import type { BetaRunnableTool, BetaToolRunContext } from '@anthropic-ai/sdk/lib/tools/BetaRunnableTool'
import { ToolError } from '@anthropic-ai/sdk/lib/tools/ToolError'
import { unlessAborted } from '@cofferdam/contract'
import type { SessionHold } from './session-holder.ts'
import type { Materials } from './session-materials.ts'
import type { SessionSandbox } from './session-sandbox.ts'
import { ToolInputError, type Tool, type ToolPlan, type ToolRoots } from './tools/tool.ts'

/** Pause between two checks whether the item holds the session. */
const HOLD_LOOK_MS = 500
/**
 * The SDK's heartbeats are at most 30 s apart. An item that is still served after this time has had a
 * heartbeat accepted.
 */
const LEASE_SHOWN_MS = 35_000

export interface ServedSession {
  toolset: Readonly<Record<string, Tool>>
  sandbox: SessionSandbox
  hold: SessionHold
  /** Skills and memory stores. Calls wait until they are in the sandbox. */
  materials: Promise<Materials>
  /** Under whose name calls are counted and audited. */
  agentId: string
  /** A call begins (1) or ends (-1). */
  onCall(change: 1 | -1): void
  /** Whether somebody stopped this item, so that its call ends with it. */
  isStopped(): boolean
  /** Another work item of this session began, so this one must stop. */
  onSucceeded(): void
  /** The runner ends. Heartbeats still keep the lease. */
  onClosed(): Promise<void>
}

export function sessionTools(session: ServedSession): BetaRunnableTool<unknown>[] {
  const tools = Object.values(session.toolset).map((tool) => ({
    // The runner finds a tool by its name, so a custom tool also answers the calls of the built-in one.
    type: 'custom' as const,
    name: tool.name,
    description: tool.description,
    input_schema: { ...tool.inputSchema, required: [...(tool.inputSchema.required ?? [])] },
    parse: (input: unknown) => input,
    async run(input: unknown, context?: BetaToolRunContext) {
      session.onCall(1)
      try {
        const signal = context?.signal ?? new AbortController().signal
        return await answer(session, tool, input, context?.toolUse.id ?? '', signal)
      } finally {
        session.onCall(-1)
      }
    },
  }))
  // At its end the runner closes each tool once, so only the first tool reports it.
  return tools.map((tool, index) => (index === 0 ? { ...tool, close: () => session.onClosed() } : tool))
}

async function answer(
  session: ServedSession,
  tool: Tool,
  input: unknown,
  toolUseId: string,
  signal: AbortSignal,
): Promise<string> {
  const materials = await session.materials
  const { text, isError } = await session.sandbox.call(session.agentId, {
    toolUseId,
    plan: planOf(tool, input, materials.roots),
    signal,
    isStopped: () => session.isStopped(),
  })
  await untilHeld(session, signal)
  await materials.sync()
  if (isError) throw new ToolError(text)
  return text
}

/**
 * Resolves once this item holds the session. If another item holds it, that one answers the call; this runner
 * ends, and the promise rejects. If another process serves the same item, the control plane refuses the next
 * heartbeat of one of the two. If it refuses the other process, that one gives up the session, and this one
 * answers.
 */
async function untilHeld(session: ServedSession, signal: AbortSignal): Promise<void> {
  await unlessAborted(session.hold.taken, signal)
  const atMs = performance.now()
  for (let isShown = true; ; isShown = performance.now() - atMs > LEASE_SHOWN_MS) {
    const successor = await session.hold.successor()
    if (successor === null && isShown) return
    // `same` is not reported: ending the item here would stop it for the other process too.
    if (successor === 'other') session.onSucceeded()
    await after(HOLD_LOOK_MS, undefined, { signal })
  }
}

function planOf(tool: Tool, input: unknown, roots: ToolRoots): ToolPlan {
  try {
    return tool.plan(input, roots)
  } catch (error) {
    if (error instanceof ToolInputError) throw new ToolError(error.message)
    throw error
  }
}
