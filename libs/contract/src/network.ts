/** What a program may reach. */
import { z } from 'zod'

const hostSchema = z
  .string()
  .max(261)
  .regex(/^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?$/, 'expected host, *.host or host:port')

/** The ports of an allow-list entry without a port. */
export const WEB_PORTS: readonly number[] = [80, 443]

export const networkSchema = z.union([
  z.literal('none'),
  z.literal('public'),
  z.strictObject({
    allow: z
      .array(hostSchema)
      .min(1)
      .max(64)
      .meta({
        description: 'Hosts that may be reached: host, *.host or host:port. Without a port: 80 and 443.',
        example: ['api.example.com', '*.example.org:8443'],
      }),
  }),
])
export type Network = z.infer<typeof networkSchema>

export const ENVIRONMENTS = ['default-public', 'internal-only'] as const
export const environmentSchema = z.enum(ENVIRONMENTS)
export type Environment = z.infer<typeof environmentSchema>
