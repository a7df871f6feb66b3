/** A task that cannot be what was asked for: decided before any code of the user ran, and told to the caller. */
import type { Ending } from '@cofferdam/contract'

export class TaskRefusal extends Error {
  override readonly name = 'TaskRefusal'
  readonly ending: Extract<Ending, 'error' | 'policy_denied' | 'provisioning'>
  /** Stable word. */
  readonly reason: string

  constructor(ending: TaskRefusal['ending'], reason: string, message: string) {
    super(message)
    this.ending = ending
    this.reason = reason
  }
}
