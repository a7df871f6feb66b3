/** What a caller may choose about a new session pool, over HTTP and on the command line. */
import { z } from 'zod'

/** Polyclaw's own defaults. */
export const POOL_DEFAULTS = { location: 'eastus', resource_group: 'polyclaw-sandbox-rg' } as const

export const poolWishSchema = z.strictObject({
  location: z
    .string()
    .regex(/^[a-z0-9]{2,40}$/, 'expected a region such as eastus')
    .optional()
    .meta({ description: `Region. Default: ${POOL_DEFAULTS.location}.`, example: 'eastus' }),
  resource_group: z
    .string()
    .regex(/^[\w.()-]{0,89}[\w()-]$/, 'expected 1-90 letters, digits or _ . ( ) -, not ending with a dot')
    .optional()
    .meta({
      description: `Resource group, made when it does not exist. Default: ${POOL_DEFAULTS.resource_group}.`,
      example: 'polyclaw-sandbox-rg',
    }),
  pool_name: z
    .string()
    .regex(
      /^[a-z][a-z0-9-]{1,61}[a-z0-9]$/,
      'expected 3-63 lower-case letters, digits or -, starting with a letter',
    )
    .optional()
    .meta({ description: 'Name of the pool. Default: one made at random.', example: 'agents-pool' }),
})
export type PoolWish = z.output<typeof poolWishSchema>
