/**
 * What an access token permits. API keys permit everything that concerns their tenant. Read-only keys permit
 * only `cofferdam:read`.
 */

/** In the order in which clients are told of them. */
export const SCOPES = ['cofferdam:run', 'cofferdam:read', 'cofferdam:cancel'] as const
export type Scope = (typeof SCOPES)[number]

/** What an access token permits. */
export interface Grant {
  scopes: ReadonlySet<Scope>
  /** The only agent to act for. Null: the request names one. */
  agentId: string | null
  expiresAtMs: number
}

/** Whether a caller with this grant may do what `scope` stands for. Callers with a key have no grant. */
export const permits = ({ grant, readOnly }: { grant?: Grant; readOnly: boolean }, scope: Scope): boolean =>
  (!readOnly || scope === 'cofferdam:read') && (grant?.scopes.has(scope) ?? true)

/**
 * The known scopes in the claim `scope` (RFC 9068: separated by spaces), else in `scp`, which some issuers
 * send instead, also as a list.
 */
export function scopesOf({ scope, scp }: Readonly<Record<string, unknown>>): ReadonlySet<Scope> {
  const given = scope ?? scp
  const words = typeof given === 'string' ? given.split(' ') : Array.isArray(given) ? given : []
  return new Set(SCOPES.filter((known) => words.includes(known)))
}
