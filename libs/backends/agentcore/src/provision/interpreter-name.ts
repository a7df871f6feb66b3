/**
 * What things at the service are called. Creation, adoption and collection of garbage go by the same names, so that no
 * interpreter is made that the collector would not recognise, and none is collected that we did not make.
 *
 *   <prefix>_<what is readable of the tenant's id>_<16 hex of its hash>_<pub|int>      at most 48 characters
 */
import { createHash } from 'node:crypto'
import type { Environment } from '@cofferdam/contract'

/** 48 (the service's bound) less prefix 12, hash 16, ending 3 and three underscores. */
const READABLE = 14
/** 64 bits of the tenant's id: two tenants with one name would need billions of tenants. */
const HASH = 16
const ENDINGS: Readonly<Record<Environment, string>> = { 'default-public': 'pub', 'internal-only': 'int' }

/** The name of a tenant's interpreter; equal for equal arguments, different for different tenants. */
export function interpreterName(prefix: string, tenantId: string, environment: Environment): string {
  return `${tenantPart(prefix, tenantId)}_${ENDINGS[environment]}`
}

/** The name of a tenant's role, in the account's path `/<prefix>/`. */
export function roleName(prefix: string, tenantId: string): string {
  return tenantPart(prefix, tenantId)
}

/** Whether `interpreterName` with this prefix makes such names. Another deployment's prefix never matches. */
export function isOurName(prefix: string, name: string): boolean {
  return new RegExp(`^${prefix}_[a-z0-9]{0,${READABLE}}_[0-9a-f]{${HASH}}_(pub|int)$`).test(name)
}

/**
 * Makes a repeated creation the same creation. The service may answer a token with what it once made, also when that is gone:
 * the generation rises with each interpreter that was forgotten. Other settings are another creation: the same token with
 * other parameters is refused for good.
 */
export function creationToken(name: string, generation: number, settings: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify([name, generation, settings]))
    .digest('hex')
}

function tenantPart(prefix: string, tenantId: string): string {
  const readable = tenantId
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '')
    .slice(0, READABLE)
  const hash = createHash('sha256').update(tenantId).digest('hex').slice(0, HASH)
  return `${prefix}_${readable}_${hash}`
}
