/** Which scopes a message of MCP needs. Everybody may open a connection and list what there is. */
import { z } from 'zod'
import type { Scope } from '../oauth/scopes.ts'

const FREE: ReadonlySet<string> = new Set([
  'initialize',
  'ping',
  'server/discover',
  'tools/list',
  'resources/list',
  'resources/templates/list',
])

const messageSchema = z.looseObject({
  method: z.string(),
  params: z.looseObject({ name: z.string().optional() }).optional().catch(undefined),
})

/** The scopes that `body` needs: one message, or several. `scopeOfTool` knows the tools by name. */
export function requiredScopes(
  body: unknown,
  scopeOfTool: (name: string) => Scope | undefined,
): ReadonlySet<Scope> {
  const messages = Array.isArray(body) ? body : [body]
  const scopes = messages.flatMap((message): Scope[] => {
    const parsed = messageSchema.safeParse(message).data
    // An answer, or no message at all: the handler refuses it.
    if (parsed === undefined) return []
    const { method, params } = parsed
    // A notification that cancels names a call of the same caller.
    if (FREE.has(method) || method.startsWith('notifications/')) return []
    if (method === 'tasks/cancel') return ['cofferdam:cancel']
    if (method !== 'tools/call') return ['cofferdam:read']
    const scope = scopeOfTool(params?.name ?? '')
    return scope === undefined ? [] : [scope]
  })
  return new Set(scopes)
}
