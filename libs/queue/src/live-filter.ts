/**
 * What live executions can be filtered by, and the facts of a request that only such a filter reads. The
 * record keeps them apart from the request, which may be large: lua/live.lua reads a few fields of each.
 */
import type { ExecutionRequest, ProgramKind } from '@cofferdam/contract'

/** Conditions that a live execution must all meet to be found. lua/live.lua reads them as JSON. */
export interface LiveFilter {
  agent?: string
  user?: string
  run?: string
  template?: string
  /** 32 hex digits. Unknown where neither the API nor the caller traces. */
  trace?: string
  /** `script` finds scripts of every language. */
  kind?: ProgramKind
  /** The backend that runs it. Before it runs, the one that its request names. */
  backend?: string
  /** `ses_…`, the sandbox of a session. Known once the program runs. */
  session?: string
  /** Enqueued at or after this, milliseconds since 1970. */
  from?: number
  /** Enqueued before this. */
  to?: number
}

/**
 * The facts as the record has them: user, run, template and backend, each on a line. Empty when the request
 * has none of them, so most records need no space for it.
 */
export function liveFactsOf(request: ExecutionRequest): string {
  const { user_id: user = '', run_id: run = '', template_id: template = '', backend } = request
  // Only the backend may contain a line break, so it is last.
  const facts = [user, run, template, backend === 'auto' ? '' : backend]
  return facts.every((fact) => fact === '') ? '' : facts.join('\n')
}
