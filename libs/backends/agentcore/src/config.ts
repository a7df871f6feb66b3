/** Settings of the `agentcore` backend. */
import { z } from 'zod'
import { forgottenAfterSchema } from '@cofferdam/backend-remote'

/**
 * `<name>-<10 characters>`, `aws.codeinterpreter.v1` (the service's own), or an ARN of either
 * (CreateCodeInterpreter, AWS API).
 */
const interpreterSchema = z.string().regex(/^[A-Za-z0-9:/._-]{1,512}$/)

export const agentcoreConfigSchema = z.strictObject({
  region: z
    .string()
    .regex(/^[a-z]{2}(-[a-z]+)+-\d$/)
    .optional()
    .describe('AWS region; without it what the SDK finds (AWS_REGION, the profile).'),
  endpoint: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('Replaces the service’s address, e.g. by that of `cofferdam double agentcore`.'),
  credentials_file: z
    .string()
    .startsWith('/')
    .max(4096)
    .optional()
    .describe(
      'An AWS credentials file that the worker alone can read; without it the SDK’s own chain. Read again ' +
        'every five minutes.',
    ),
  profile: z.string().min(1).max(128).default('default').describe('The section of the credentials file.'),
  interpreters: z
    .strictObject({
      'default-public': interpreterSchema.optional().describe('The interpreter with network.'),
      'internal-only': interpreterSchema.optional().describe('The interpreter without network.'),
    })
    .default({})
    .describe(
      'Interpreters that all tenants of this fleet share, by environment. Set them only if the tenants ' +
        'trust each other. Default: `cofferdam provision agentcore` makes interpreters for each tenant.',
    ),
  session_prefix: z
    .string()
    .regex(/^[a-z][a-z0-9]{0,7}$/)
    .default('cfd')
    .describe('Prefix of session names, by which workers find leftovers.'),
  languages: z
    .array(z.enum(['python', 'javascript', 'bash']))
    .min(1)
    .default(['python', 'javascript', 'bash'])
    .describe(
      'Languages of the service’s image. TypeScript is not one of them, because the Node.js there cannot ' +
        'run syntax that must be transformed (enums, namespaces).',
    ),
  node: z.string().min(1).max(256).default('node').describe('Node.js inside of that image, 22.18 or newer.'),
  calls_per_second: z
    .int()
    .min(1)
    .max(10_000)
    .default(25)
    .describe(
      'Most calls a second that this fleet makes of one API operation in the account. The service takes 30 ' +
        '(AWS documentation, bedrock-agentcore-limits).',
    ),
  api_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(30_000)
    .describe('Time-out of each call, except for the one that runs a program.'),
  ready_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(25_000)
    .describe(
      'Time from the start of a session until it has proven that it is ready. A second try gets the same ' +
        'time again.',
    ),
  call_max_ms: z
    .int()
    .min(1000)
    .max(840_000)
    .default(840_000)
    .describe(
      'A program whose hard deadline is longer runs in the background, and the worker polls for its end, ' +
        'because a call may take at most 15 minutes. A program of a Cofferdam session is refused instead.',
    ),
  kept_life_ms: z
    .int()
    .min(60_000)
    .max(28_800_000)
    .default(3_600_000)
    .describe(
      'Life of a session that is kept for later executions, from its start. The service ends it then, even ' +
        'while it is in use. At most 8 hours.',
    ),
  forgotten_after_ms: forgottenAfterSchema.describe(
    'A session that is kept for later executions is stopped if no entry of the registry names it for this ' +
      'long, because Redis may have lost the entry.',
  ),
  warm_sessions: z
    .int()
    .min(0)
    .max(100)
    .default(0)
    .describe(
      'Most sessions that a worker starts in advance, so that executions do not wait for a start. There is ' +
        'one in each of the most recently used interpreters. The vendor charges for them. 0: none.',
    ),
  warm_max_age_ms: z
    .int()
    .min(1000)
    .max(3_600_000)
    .default(300_000)
    .describe('A session that waited this long is stopped, and another one started in its place.'),
})
export type AgentcoreConfig = z.output<typeof agentcoreConfigSchema>
