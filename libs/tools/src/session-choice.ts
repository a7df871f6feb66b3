/** Which session a call belongs to. */
import type { ExecutionRequest } from '@cofferdam/client'
import { sessionKey } from './call-ids.ts'
import type { CodeInput } from './code-input.ts'
import type { SessionOption } from './options.ts'
import type { ToolCall } from './tool-call.ts'

/** The key of the call's session. Undefined for a call that starts from nothing. */
export async function keyFor(
  option: SessionOption | undefined,
  { session: named }: CodeInput,
  call: ToolCall,
): Promise<string | undefined> {
  if (option === undefined) return undefined
  if (typeof option === 'function') return sessionKey(option(call))
  if (typeof option === 'string') return sessionKey(option)
  if ('key' in option) return sessionKey(option.key)
  return named === undefined ? undefined : sessionKey(`${option.prefix}.${named}`)
}

/** The field of the request. */
export function sessionOf(
  option: SessionOption | undefined,
  key: string | undefined,
): ExecutionRequest['session'] {
  if (key === undefined) return undefined
  const scope = typeof option === 'object' ? option.scope : undefined
  return { key, scope: scope ?? 'interpreter' }
}
