/** Why an execution cannot use a session. */
import { CofferdamError, type SandboxSpec, type SessionScope } from '@cofferdam/contract'
import type { SlotLimits } from './slot.ts'

/**
 * Called when an execution would create its session. Throws `session_not_found` for file operations and
 * `mustExist`, which may not do that.
 */
export function refuseBeginning({ program, session }: Pick<SandboxSpec, 'program' | 'session'>): void {
  if (program.type === 'files' || session?.mustExist === true) throw new CofferdamError('session_not_found')
}

/**
 * Why a session does not fit an execution; null if it does. Its sandbox cannot change limits or scope for one
 * execution. File operations always fit.
 */
export function unlike(
  cell: { scope: SessionScope; limits: SlotLimits },
  { session, program }: Pick<SandboxSpec, 'session' | 'program'>,
  limits: SlotLimits,
): string | null {
  if (session === null || program.type === 'files') return null
  if (cell.scope !== session.scope)
    return `The session was opened with scope "${cell.scope}", not "${session.scope}". Use another session key, or the same scope.`
  const other = (['memory_mib', 'cpus', 'pids', 'disk_mib'] as const).filter(
    (name) => cell.limits[name] !== limits[name],
  )
  if (other.length === 0) return null
  return `The session was opened with ${other.map((name) => `${name} ${cell.limits[name]}`).join(', ')}. Ask for the same limits, or use another session key.`
}
