/** Settings of provisioning at AgentCore: the `provisioning.agentcore` section of cofferdam.config.yaml. */
import { z } from 'zod'

const url = z.url({ protocol: /^https?$/ })
const arn = z
  .string()
  .regex(
    /^arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]{1,512}$/,
    'expected none, per-tenant or the ARN of a role',
  )

export const agentcoreProvisionConfigSchema = z
  .strictObject({
    region: z.string().regex(/^[a-z]{2}(-[a-z]+)+-\d$/, 'expected a region such as eu-west-1'),
    /**
     * An AWS credentials file; without it the SDK's own chain. Provisioning needs other rights than running programs: not the
     * worker's keys where another process provisions.
     */
    credentials_file: z.string().startsWith('/').max(4096).optional(),
    /** The section of it. */
    profile: z.string().min(1).max(128).default('default'),
    /** The account that interpreters are made in; roles of tenants trust the service for it alone. */
    account_id: z
      .string()
      .regex(/^\d{12}$/, 'expected twelve digits')
      .optional(),
    /**
     * First part of the names of everything that is made. One deployment, one prefix: what carries it and stands in no row of
     * this deployment's database is garbage.
     */
    prefix: z
      .string()
      .regex(/^[a-zA-Z][a-zA-Z0-9]{0,11}$/, 'expected up to 12 letters and digits')
      .default('cofferdam'),
    /**
     * The role of the programs: they can read its credentials. `none`: there are none to read. `per-tenant`: a role for each
     * tenant, which may touch nothing but the tenant's part of `data_bucket`. Else the ARN of one role for all.
     */
    execution_role: z.union([z.literal(['none', 'per-tenant']), arn]).default('none'),
    /** With `per-tenant`: bucket whose objects below `tenants/<tenant>/` a tenant's programs may read and write. */
    data_bucket: z
      .string()
      .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'expected the name of a bucket')
      .optional(),
    /** Where interpreters without network run. The service's SANDBOX mode still reaches S3; a subnet without routes reaches nothing. */
    internal_network: z
      .union([
        z.literal('sandbox'),
        z.strictObject({
          subnets: z
            .array(z.string().regex(/^subnet-[0-9a-z]{8,17}$/))
            .min(1)
            .max(16),
          security_groups: z
            .array(z.string().regex(/^sg-[0-9a-z]{8,17}$/))
            .min(1)
            .max(16),
        }),
      ])
      .default('sandbox'),
    /** How often a worker reconciles; left out: only `cofferdam provision agentcore` does. */
    every_ms: z.int().min(1000).max(86_400_000).optional(),
    /** Whose interpreters the worker's rounds make: those that somebody asked for, or every tenant's whose sandbox is on. */
    tenants: z.enum(['requested', 'all']).default('requested'),
    /** Whether the worker's rounds also delete interpreters that no row names; only what an earlier round found already. */
    collect_garbage: z.boolean().default(false),
    /** How long one call waits for an interpreter to become READY; the next round goes on where it ended. */
    ready_timeout_ms: z.int().min(100).max(600_000).default(60_000),
    poll_ms: z.int().min(1).max(10_000).default(1000),
    /** Replaces `https://bedrock-agentcore-control.<region>.amazonaws.com`. */
    control_url: url.optional(),
    /** Replaces `https://iam.amazonaws.com`. */
    iam_url: url.optional(),
  })
  .refine(({ execution_role, account_id }) => execution_role !== 'per-tenant' || account_id !== undefined, {
    path: ['account_id'],
    message: 'expected account_id with execution_role per-tenant',
  })
  .refine(({ execution_role, data_bucket }) => data_bucket === undefined || execution_role === 'per-tenant', {
    path: ['data_bucket'],
    message: 'expected execution_role per-tenant with data_bucket',
  })
export type AgentcoreProvisionConfig = z.output<typeof agentcoreProvisionConfigSchema>
