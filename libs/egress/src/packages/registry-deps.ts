/** What the two registries need, and how they are called. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Ledger } from '../ledger.ts'
import type { Mirror } from './mirror.ts'
import type { PackageRules } from './package-rules.ts'

export interface RegistryDeps {
  mirror: Mirror
  rules: PackageRules
  ledger: Ledger
  /** Our address of the registry, without a slash at its end. */
  base: string
  /** Aborts with the execution. Indexes are loaded with this signal, as two requests may share a load. */
  signal: AbortSignal
}

/** Answers a request for `parts`, a decoded path. Throws `PackageRefused` or `MirrorFailure`. */
export type ServeRegistry = (
  request: IncomingMessage,
  response: ServerResponse,
  parts: readonly string[],
  signal: AbortSignal,
) => Promise<void>
