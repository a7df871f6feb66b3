/**
 * Why an attempt ended before user code began. Internal: `execute` turns it into an Outcome, nobody else sees
 * it.
 */
import type { Ending } from '@cofferdam/contract'

export class ProvisioningFailure extends Error {
  /** Stable word, e.g. `backend_unknown`. */
  readonly reason: string
  /** `policy_denied` when it is the tenant's policy that says no, not the platform that cannot. */
  readonly ending: Extract<Ending, 'provisioning' | 'policy_denied'>

  /** `message` is public and goes into the result. */
  constructor(
    reason: string,
    message: string,
    options: { cause?: unknown; ending?: ProvisioningFailure['ending'] } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'ProvisioningFailure'
    this.reason = reason
    this.ending = options.ending ?? 'provisioning'
  }
}
