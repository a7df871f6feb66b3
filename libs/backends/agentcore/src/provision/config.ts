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
    region: z
      .string()
      .regex(/^[a-z]{2}(-[a-z]+)+-\d$/, 'expected a region such as eu-west-1')
      .describe('AWS region that interpreters are made in.'),
    credentials_file: z
      .string()
      .startsWith('/')
      .max(4096)
      .optional()
      .describe(
        'An AWS credentials file; without it the SDK’s own chain. Provisioning needs other rights than ' +
          'running programs, so if another process provisions, do not give it the worker’s keys.',
      ),
    profile: z.string().min(1).max(128).default('default').describe('The section of the credentials file.'),
    account_id: z
      .string()
      .regex(/^\d{12}$/, 'expected twelve digits')
      .optional()
      .describe(
        'The account that interpreters are made in. The service may use the roles of tenants for this ' +
          'account only. Required with `per-tenant`.',
      ),
    prefix: z
      .string()
      .regex(/^[a-zA-Z][a-zA-Z0-9]{0,11}$/, 'expected up to 12 letters and digits')
      .default('cofferdam')
      .describe(
        'First part of the names of everything that is created. Each deployment needs a prefix of its own, ' +
          'because whatever has the prefix but no row in this deployment’s database is garbage.',
      ),
    execution_role: z
      .union([z.literal(['none', 'per-tenant']), arn])
      .default('none')
      .describe(
        'The role of the programs: they can read its credentials. `none`: there are none to read. ' +
          '`per-tenant`: a role for each tenant, which may touch nothing but the tenant’s part of ' +
          '`data_bucket`. Else the ARN of one role for all.',
      ),
    data_bucket: z
      .string()
      .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'expected the name of a bucket')
      .optional()
      .describe(
        'With `per-tenant`: bucket whose objects below `tenants/<tenant>/` a tenant’s programs may read ' +
          'and write.',
      ),
    internal_network: z
      .union([
        z.literal('sandbox'),
        z.strictObject({
          subnets: z
            .array(z.string().regex(/^subnet-[0-9a-z]{8,17}$/))
            .min(1)
            .max(16)
            .describe('Subnets without a route to the internet.'),
          security_groups: z
            .array(z.string().regex(/^sg-[0-9a-z]{8,17}$/))
            .min(1)
            .max(16)
            .describe('Security groups of the interpreters.'),
        }),
      ])
      .default('sandbox')
      .describe(
        'Where interpreters without network run. The service’s SANDBOX mode still reaches S3; a subnet ' +
          'without routes reaches nothing.',
      ),
    every_ms: z
      .int()
      .min(1000)
      .max(86_400_000)
      .optional()
      .describe('How often a worker reconciles; left out: only `cofferdam provision agentcore` does.'),
    tenants: z
      .enum(['requested', 'all'])
      .default('requested')
      .describe(
        'For which tenants a worker creates interpreters. `requested`: only those that somebody asked for. ' +
          '`all`: also those of every tenant whose policy enables the sandbox.',
      ),
    collect_garbage: z
      .boolean()
      .default(false)
      .describe(
        'Whether workers also delete interpreters that no row of the database names. One is deleted only ' +
          'if the round before found it too.',
      ),
    ready_timeout_ms: z
      .int()
      .min(100)
      .max(600_000)
      .default(60_000)
      .describe(
        'How long one call waits for an interpreter to become READY; the next round goes on where it ended.',
      ),
    poll_ms: z
      .int()
      .min(1)
      .max(10_000)
      .default(1000)
      .describe('How often an interpreter that is not READY yet is looked at.'),
    control_url: url
      .optional()
      .describe('Replaces `https://bedrock-agentcore-control.<region>.amazonaws.com`.'),
    iam_url: url.optional().describe('Replaces `https://iam.amazonaws.com`.'),
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
