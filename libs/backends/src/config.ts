/** The `backends` section of the configuration: one strict key for each backend of this worker. */
import { z } from 'zod'
import { BACKENDS, type BackendName } from './registry.ts'

type Shape = { [Name in BackendName]: z.ZodOptional<(typeof BACKENDS)[Name]['config']> }

// Object.entries loses which schema belongs to which name; Shape restores it.
const shape = Object.fromEntries(
  Object.entries(BACKENDS).map(([name, line]) => [name, line.config.optional()]),
) as unknown as Shape

/**
 * Each folder's own schema. A worker has a backend only if its key is present (`docker: {}`), so the doubles
 * `fake` and `hostile` never run unless named.
 */
export const backendsConfigSchema = z.strictObject(shape)
/** The section as written in a file, without defaults. */
export type BackendsConfigInput = z.input<typeof backendsConfigSchema>

/** Like `backendsConfigSchema`, but keeps the names in the file's order, which is the order of preference. */
export const orderedBackendsConfigSchema = z.unknown().transform((written, context) => {
  const { data, error } = backendsConfigSchema.safeParse(written)
  if (error !== undefined) {
    for (const issue of error.issues) context.issues.push({ ...issue, input: written } as z.core.$ZodRawIssue)
    return z.NEVER
  }
  const names = Object.keys(written as object) as BackendName[]
  return Object.fromEntries(names.map((name) => [name, data[name]])) as typeof data
})
orderedBackendsConfigSchema._zod.toJSONSchema = () =>
  z.toJSONSchema(backendsConfigSchema, { io: 'input', unrepresentable: 'any' })
