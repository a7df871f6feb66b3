/**
 * Thrown for a task that cannot be carried out as asked, before any code of the user runs. The caller reads
 * its message.
 */
import type { Ending } from '@cofferdam/contract'

export class TaskRefusal extends Error {
  override readonly name = 'TaskRefusal'
  readonly ending: Extract<Ending, 'error' | 'policy_denied' | 'provisioning'>
  /** Stable word, for example `no_manifest`. */
  readonly reason: string

  constructor(ending: TaskRefusal['ending'], reason: string, message: string) {
    super(message)
    this.ending = ending
    this.reason = reason
  }
}
