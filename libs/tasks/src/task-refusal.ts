/** A task that cannot be carried out, thrown before user code runs. The caller reads the message. */
import type { Ending } from '@cofferdam/contract'

export class TaskRefusal extends Error {
  override readonly name = 'TaskRefusal'
  readonly ending: Extract<Ending, 'error' | 'policy_denied' | 'provisioning'>
  /** Stable word, such as `no_manifest`. */
  readonly reason: string

  constructor(ending: TaskRefusal['ending'], reason: string, message: string) {
    super(message)
    this.ending = ending
    this.reason = reason
  }
}
