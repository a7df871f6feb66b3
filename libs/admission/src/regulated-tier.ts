/**
 * What a template has to force before code of a regulated or HIPAA tenant runs: no network, its own kernel,
 * short retention, and encryption of everything that is stored. The tier promises no certification. It only
 * refuses what would be unsafe in any case.
 */
import { isAtLeast, type Isolation, type Template } from '@cofferdam/contract'

/** gVisor is the weakest level at which the program does not talk to the host's kernel. */
const MIN_ISOLATION: Isolation = 'gvisor'
/** A week: long enough to investigate on Monday what failed on Friday. The default is 30 days. */
const REGULATED_RETENTION_DAYS = 7

/**
 * The settings that the template lacks, in words. Empty when it is safe. The template itself must have each
 * one, because the tenant's policy can change without a look at the template. `microvm-emulated` counts as
 * strong: it is slow, but the program sees another kernel on emulated hardware.
 */
export function missingForRegulated(sandbox: Template['sandbox']): string[] {
  if (sandbox === null) return ['a template with sandbox settings']
  const missing: string[] = []
  if (sandbox.network !== 'none') missing.push('network "none"')
  if (sandbox.min_isolation === undefined || !isAtLeast(sandbox.min_isolation, MIN_ISOLATION))
    missing.push('min_isolation "gvisor" or "microvm"')
  if (sandbox.retention_days === undefined || sandbox.retention_days > REGULATED_RETENTION_DAYS)
    missing.push(`retention_days of at most ${REGULATED_RETENTION_DAYS}`)
  if (sandbox.encrypt_outputs !== true) missing.push('encrypt_outputs true')
  return missing
}
