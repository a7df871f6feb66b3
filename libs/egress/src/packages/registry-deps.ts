/** What the two registries are made of, and how both are asked. */
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
  /** Ends with the execution. Indexes are loaded under it: two requests may wait for one of them. */
  signal: AbortSignal
}

/** Answers one request; `parts` is its decoded path below the registry. Throws `PackageRefused` or `MirrorFailure`. */
export type ServeRegistry = (
  request: IncomingMessage,
  response: ServerResponse,
  parts: readonly string[],
  signal: AbortSignal,
) => Promise<void>
