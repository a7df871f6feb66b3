/** Settings of the `none` backend. */
import { z } from 'zod'
import { hostSettings } from '../process/config.ts'

export const noneConfigSchema = z.strictObject(hostSettings)
export type NoneConfig = z.output<typeof noneConfigSchema>
