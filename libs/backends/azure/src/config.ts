/** Settings of the `azure` backend. */
import { z } from 'zod'

const isLoopback = (host: string): boolean => /^(127\.\d+\.\d+\.\d+|localhost|\[::1\])$/.test(host)
/** Tokens go there: never in clear over a network. */
const endpoint = z
  .url({ protocol: /^https?$/ })
  .refine((text) => text.startsWith('https:') || isLoopback(new URL(text).hostname), 'expected https')
  .transform((text) => text.replace(/\/+$/, ''))
const file = z.string().startsWith('/').max(4096)

export const CREDENTIALS = ['azure-cli', 'client-secret', 'workload-identity', 'managed-identity'] as const

export const azureConfigSchema = z.strictObject({
  enabled: z
    .boolean()
    .default(false)
    .describe('Off until someone turns it on: programs and files leave this host, and sessions cost money.'),
  container_endpoint: endpoint
    .optional()
    .describe(
      '`properties.poolManagementEndpoint` of a CustomContainer pool whose image runs our `http_pod.py`. Preferred when both are set.',
    ),
  interpreter_endpoint: endpoint
    .optional()
    .describe('`properties.poolManagementEndpoint` of a PythonLTS or Shell pool.'),
  interpreter: z
    .enum(['python', 'shell'])
    .default('python')
    .describe('What that pool runs: PythonLTS or Shell.'),
  detached: z
    .boolean()
    .default(false)
    .describe(
      'What an interpreter pool starts in the background survives the execution that started it. Not documented by the vendor: try it with the backend’s test first. It gives streaming, interrupts, sessions, and runs of more than 215 s.',
    ),
  dialect: z
    .enum(['auto', 'new', 'old'])
    .default('auto')
    .describe(
      '`auto` asks in the newest way first, and in the older one when the pool says SessionPropertiesMissing.',
    ),
  identifier_secret_file: file
    .optional()
    .describe(
      'File with the secret that identifiers are made with, at least 32 bytes and the same for all workers: who knows an identifier has the session.',
    ),

  credentials: z
    .array(z.enum(CREDENTIALS))
    .min(1)
    .default([...CREDENTIALS])
    .describe(
      'Ways to a token, in this order; those that are not set up are passed over. In production: only the one that is meant.',
    ),
  az: z.string().min(1).max(4096).default('az').describe('The command of azure-cli.'),
  tenant_id: z
    .string()
    .regex(/^[\w.-]{1,255}$/)
    .optional()
    .describe('Tenant of Microsoft Entra, for `client-secret` and `workload-identity`.'),
  client_id: z
    .string()
    .regex(/^[\w-]{1,64}$/)
    .optional()
    .describe('Id of the application, or of a user-assigned managed identity.'),
  client_secret_file: file
    .optional()
    .describe('File that holds the application’s secret, readable by the worker alone.'),
  federated_token_file: file
    .optional()
    .describe('The token file that Kubernetes writes for workload identity.'),
  authority: endpoint
    .default('https://login.microsoftonline.com')
    .describe('Where Microsoft Entra gives tokens; other clouds have their own.'),
  identity_endpoint: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe(
      'Where a managed identity gives tokens: App Service’s IDENTITY_ENDPOINT with its header in a file, else the machine’s own (IMDS).',
    ),
  identity_header_file: file
    .optional()
    .describe('File with what `identity_endpoint` wants to see in its header.'),

  languages: z
    .array(z.enum(['python', 'javascript', 'typescript', 'bash']))
    .min(1)
    .optional()
    .describe(
      'Languages of the image or pool; default all of a container, what is documented of an interpreter pool.',
    ),
  python: z.string().min(1).max(256).default('python3').describe('Python inside an interpreter pool.'),
  node: z.string().min(1).max(256).default('node').describe('Node.js inside an interpreter pool.'),

  role_granted_at: z.iso
    .datetime()
    .optional()
    .describe(
      'When the session’s role was granted: for ten minutes after it 403 is waited for instead of being final.',
    ),
  cooldown_ms: z
    .int()
    .min(1000)
    .max(3_600_000)
    .default(300_000)
    .describe(
      'The pool’s `cooldownPeriodInSeconds`: the service ends a session that has had no call for so long.',
    ),
  reap: z
    .enum(['idle', 'paid-hour'])
    .default('idle')
    .describe(
      '`idle` ends a session after `idle_ms`; `paid-hour` keeps it to just before the end of the hour that is paid for.',
    ),
  idle_ms: z
    .int()
    .min(1000)
    .max(3_600_000)
    .default(60_000)
    .describe('How long a session may rest with `reap: idle`.'),
  api_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(30_000)
    .describe('Every call but a running execution ends after this.'),
  ready_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(60_000)
    .describe('From the first call of a session to the agent’s first frame.'),
})
export type AzureConfig = z.output<typeof azureConfigSchema>
