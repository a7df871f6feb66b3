/**
 * The `backends` section of the configuration: one key per backend that this worker shall have, strict all
 * the way down.
 */
import { z } from 'zod'
import { BACKENDS, type BackendName } from './registry.ts'

type Shape = { [Name in BackendName]: z.ZodOptional<(typeof BACKENDS)[Name]['config']> }

// Object.entries forgets which schema stands under which name; Shape says it again.
const shape = Object.fromEntries(
  Object.entries(BACKENDS).map(([name, line]) => [name, line.config.optional()]),
) as unknown as Shape

/**
 * Composed of each folder's own schema. A backend exists on a worker only when its key is there (`docker:
 * {}`); the doubles `fake` and `hostile` therefore never run unless somebody wrote their names.
 */
export const backendsConfigSchema = z.strictObject(shape)
/** What stands in a file, with defaults left out. */
export type BackendsConfigInput = z.input<typeof backendsConfigSchema>

/** The same, with the names in the order of the file: it is the order of preference. */
export const orderedBackendsConfigSchema = z.unknown().transform((written, context) => {
  const { data, error } = backendsConfigSchema.safeParse(written)
  if (error !== undefined) {
    for (const { path, message } of error.issues)
      context.issues.push({ code: 'custom', path, message, input: written })
    return z.NEVER
  }
  const names = Object.keys(written as object) as BackendName[]
  return Object.fromEntries(names.map((name) => [name, data[name]])) as typeof data
})
