/** Settings of the `azure` backend. */
import { z } from 'zod'

const isLoopback = (host: string): boolean => /^(127\.\d+\.\d+\.\d+|localhost|\[::1\])$/.test(host)
/** Tokens are sent there, so http is allowed on loopback only. */
const endpoint = z
  .url({ protocol: /^https?$/ })
  .refine((text) => text.startsWith('https:') || isLoopback(new URL(text).hostname), 'expected https')
  .transform((text) => text.replace(/\/+$/, ''))
const file = z.string().startsWith('/').max(4096)

/** The credentials that are tried by default. */
const USUAL = ['azure-cli', 'client-secret', 'workload-identity', 'managed-identity'] as const
export const CREDENTIALS = [
  ...USUAL,
  'client-certificate',
  'azure-powershell',
  'azure-developer-cli',
  'default',
] as const

export const azureConfigSchema = z.strictObject({
  enabled: z
    .boolean()
    .default(false)
    .describe('Off by default, because programs and files leave this host, and sessions cost money.'),
  container_endpoint: endpoint
    .optional()
    .describe(
      '`properties.poolManagementEndpoint` of a CustomContainer pool whose image runs our ' +
        '`http_pod.py`. If both endpoints are set, this one is used.',
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
      'Set it if a process in your interpreter pool survives the execution that started it. The vendor ' +
        'does not document this, so try it on your pool first. It gives streaming, interrupts, sessions, ' +
        'and runs of more than 215 s.',
    ),
  dialect: z
    .enum(['auto', 'new', 'old'])
    .default('auto')
    .describe(
      'Form of the calls to an interpreter pool. `auto` tries the newer one first, and the older one if ' +
        'the pool refuses it.',
    ),
  identifier_secret_file: file
    .optional()
    .describe(
      'File with the secret from which workers derive the identifiers of sessions: at least 32 bytes, the ' +
        'same for all workers. Whoever knows an identifier can use its session.',
    ),

  credentials: z
    .array(z.enum(CREDENTIALS))
    .min(1)
    .default([...USUAL])
    .describe(
      'Credentials to try, in this order. Those that are not set up are skipped. `default` is ' +
        'DefaultAzureCredential of @azure/identity. In production, name only the intended one.',
    ),
  az: z.string().min(1).max(4096).default('az').describe('The command of the Azure CLI.'),
  tenant_id: z
    .string()
    .regex(/^[\w.-]{1,255}$/)
    .optional()
    .describe(
      'Tenant of Microsoft Entra, for `client-secret`, `client-certificate` and `workload-identity`.',
    ),
  client_id: z
    .string()
    .regex(/^[\w-]{1,64}$/)
    .optional()
    .describe('ID of the application, or of a user-assigned managed identity.'),
  client_secret_file: file
    .optional()
    .describe('File that holds the application’s secret, readable by the worker alone.'),
  client_certificate_file: file
    .optional()
    .describe('PEM file with the application’s certificate and private key, readable by the worker alone.'),
  federated_token_file: file
    .optional()
    .describe('The token file that Kubernetes writes for workload identity.'),
  authority: endpoint
    .default('https://login.microsoftonline.com')
    .describe(
      'Where Microsoft Entra issues tokens, by https. Other clouds have another address. Default: ' +
        '`https://login.microsoftonline.com`.',
    ),
  identity_endpoint: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe(
      'Where a managed identity gets tokens: App Service’s IDENTITY_ENDPOINT, with its header in a ' +
        'file. Left out: the machine’s own (IMDS).',
    ),
  identity_header_file: file
    .optional()
    .describe('File with the header value that `identity_endpoint` expects.'),

  languages: z
    .array(z.enum(['python', 'javascript', 'typescript', 'bash']))
    .min(1)
    .optional()
    .describe(
      'Languages of the image or pool. Default: all for a container, the documented ones for an ' +
        'interpreter pool.',
    ),
  python: z.string().min(1).max(256).default('python3').describe('Python inside an interpreter pool.'),
  node: z.string().min(1).max(256).default('node').describe('Node.js inside an interpreter pool.'),

  role_granted_at: z.iso
    .datetime()
    .optional()
    .describe('When the workers got their role on the pool. For ten minutes after that, they retry a 403.'),
  cooldown_ms: z
    .int()
    .min(1000)
    .max(3_600_000)
    .default(300_000)
    .describe(
      'The pool’s `cooldownPeriodInSeconds`. The service ends a session that has had no call for this long.',
    ),
  reap: z
    .enum(['idle', 'paid-hour'])
    .default('idle')
    .describe(
      '`idle` ends a session after `idle_ms`. `paid-hour` keeps it until shortly before the end of the ' +
        'paid hour.',
    ),
  idle_ms: z
    .int()
    .min(1000)
    .max(3_600_000)
    .default(60_000)
    .describe('How long a session may be idle with `reap: idle`.'),
  api_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(30_000)
    .describe('Deadline of every call but a running execution.'),
  ready_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(60_000)
    .describe('Longest time from the first call of a session to the guest agent’s first frame.'),
})
export type AzureConfig = z.output<typeof azureConfigSchema>
