/** The tools of a session as the SDK's runner calls them: by name, each call an execution in the sandbox. */
import type { BetaRunnableTool, BetaToolRunContext } from '@anthropic-ai/sdk/lib/tools/BetaRunnableTool'
import { ToolError } from '@anthropic-ai/sdk/lib/tools/ToolError'
import type { SessionHold } from './session-holder.ts'
import type { Materials } from './session-materials.ts'
import type { SessionSandbox } from './session-sandbox.ts'
import { ToolInputError, type Tool, type ToolPlan, type ToolRoots } from './tools/tool.ts'

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
  /** The runner ends. The lease is still kept. */
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
  // The runner closes every tool once, at its end.
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
  const successor = await session.hold.successor()
  if (successor !== null) await yieldTo(successor, session, signal)
  await materials.sync()
  if (isError) throw new ToolError(text)
  return text
}

/** Whoever holds the session now answers the call. This runner never does. Rejects when it ends. */
async function yieldTo(
  successor: 'same' | 'other',
  session: ServedSession,
  signal: AbortSignal,
): Promise<never> {
  // If another process serves the same item, our next heartbeat is refused, and the SDK leaves the item alone.
  // To end it here would stop that process's item.
  if (successor === 'other') session.onSucceeded()
  await new Promise((resolve) => {
    if (signal.aborted) resolve(null)
    else signal.addEventListener('abort', resolve, { once: true })
  })
  throw signal.reason
}

function planOf(tool: Tool, input: unknown, roots: ToolRoots): ToolPlan {
  try {
    return tool.plan(input, roots)
  } catch (error) {
    if (error instanceof ToolInputError) throw new ToolError(error.message)
    throw error
  }
}
