/** The routine that a path names. */
import { CofferdamError, routineIdSchema } from '@cofferdam/contract'
import { z } from 'zod'

export const routineParams = z.strictObject({ id: routineIdSchema })

/** The same words whether it never was, is gone, or is somebody else's. */
export const noRoutine = (): CofferdamError =>
  new CofferdamError('not_found', 'There is no routine of that id.')

/** What was looked for. Throws `not_found`. */
export function foundRoutine<T>(found: T | null): T {
  if (found === null) throw noRoutine()
  return found
}
