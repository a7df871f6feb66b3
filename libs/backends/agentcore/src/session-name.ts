/**
 * Names and tokens of sessions. A name tells its owner, so that any worker finds what a dead one left. A
 * token makes a repeated Start return the same session.
 */
import { createHash, randomBytes } from 'node:crypto'
import { fleetOf, type SandboxSpec, type WorkerId } from '@cofferdam/contract'

/**
 * `<prefix>-<worker>-<execution>-<end of the sandbox's id>`: at most 8 + 50 + 37 + 4 of the service's 100
 * characters. The last part tells apart the sessions of a repeated attempt, because a search for the previous
 * session must not find the current one.
 */
export const ownedName = (
  prefix: string,
  { owner, executionId, sandboxId }: Pick<SandboxSpec, 'owner' | 'executionId' | 'sandboxId'>,
): string => `${prefix}-${owner}-${executionId}-${sandboxId.slice(-3)}`

/** A warm session of a worker: `<prefix>-<worker>-warm_<16 hex digits>`. */
export const warmName = (prefix: string, owner: WorkerId): string =>
  `${prefix}-${owner}-warm_${randomBytes(8).toString('hex')}`

/** Whether a name has the form of `warmName`. */
export const isWarmName = (name: string | undefined): name is string => /-warm_[0-9a-f]{16}$/.test(name ?? '')

/** A session of a fleet, for several executions: `<prefix>-kept-<fleet>-<hash of tenant, key, epoch>`. */
export const keptName = (
  prefix: string,
  { owner, tenantId }: Pick<SandboxSpec, 'owner' | 'tenantId'>,
  key: string,
  epoch: number,
): string => `${prefix}-kept-${fleetOf(owner)}-${digest(tenantId, key, String(epoch)).slice(0, 40)}`

/** Whether a name has the form of `keptName` for this worker's fleet. */
export const isKeptBy = (prefix: string, worker: WorkerId, name: string): boolean =>
  name.startsWith(`${prefix}-kept-${fleetOf(worker)}-`)

/** The worker in a name of `ownedName` or `warmName`; null for any other name. */
export function ownerIn(prefix: string, name: string | undefined): WorkerId | null {
  if (name?.startsWith(`${prefix}-`) !== true) return null
  const found = /^(wrk_[0-9a-f]{12}_[0-9a-f]{32})-(?:exe|warm)_/.exec(name.slice(prefix.length + 1))
  return found === null ? null : (found[1] as WorkerId)
}

/** A UUID of version 5, as the service expects it. The same parts give the same token. */
export function clientToken(...parts: readonly (string | number)[]): string {
  const hex = digest(...parts.map(String))
  const variant = ((Number.parseInt(hex[16] ?? '0', 16) & 3) | 8).toString(16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

const digest = (...parts: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex')
