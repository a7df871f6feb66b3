/** Why an attempt ended before user code began. Internal: `execute` turns it into an Outcome. */
import type { Ending } from '@cofferdam/contract'

export class ProvisioningFailure extends Error {
  /** Stable word, e.g. `backend_unknown`. */
  readonly reason: string
  /** `policy_denied` if the tenant's policy refused the attempt, `provisioning` if the platform failed. */
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
