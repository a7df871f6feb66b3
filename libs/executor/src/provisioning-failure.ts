/** Why an attempt ended before user code began. Internal: `execute` turns it into an Outcome, nobody else sees it. */

export class ProvisioningFailure extends Error {
  /** Stable word, e.g. `backend_unknown`. */
  readonly reason: string

  /** `message` is public and goes into the result. */
  constructor(reason: string, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'ProvisioningFailure'
    this.reason = reason
  }
}
