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
  /** Off until someone turns it on: programs and files leave this host, and sessions cost money. */
  enabled: z.boolean().default(false),
  /** `properties.poolManagementEndpoint` of a CustomContainer pool whose image runs our `http_pod.py`. Preferred when both are set. */
  container_endpoint: endpoint.optional(),
  /** `properties.poolManagementEndpoint` of a PythonLTS or Shell pool. */
  interpreter_endpoint: endpoint.optional(),
  interpreter: z.enum(['python', 'shell']).default('python'),
  /**
   * What an interpreter pool starts in the background survives the execution that started it. Not documented by the vendor: try it
   * with the backend's test first. It gives streaming, interrupts, sessions, and runs of more than 215 s.
   */
  detached: z.boolean().default(false),
  /** `auto` asks in the newest way first, and in the older one when the pool says SessionPropertiesMissing. */
  dialect: z.enum(['auto', 'new', 'old']).default('auto'),
  /** Secret that identifiers are made with, at least 32 bytes and the same for all workers: who knows an identifier has the session. */
  identifier_secret_file: file.optional(),

  /** Ways to a token, in this order; those that are not set up are passed over. In production: only the one that is meant. */
  credentials: z
    .array(z.enum(CREDENTIALS))
    .min(1)
    .default([...CREDENTIALS]),
  /** The command of azure-cli. */
  az: z.string().min(1).max(4096).default('az'),
  tenant_id: z
    .string()
    .regex(/^[\w.-]{1,255}$/)
    .optional(),
  /** Of the application, or of a user-assigned managed identity. */
  client_id: z
    .string()
    .regex(/^[\w-]{1,64}$/)
    .optional(),
  client_secret_file: file.optional(),
  /** What Kubernetes writes for workload identity. */
  federated_token_file: file.optional(),
  authority: endpoint.default('https://login.microsoftonline.com'),
  /** Where a managed identity gives tokens: App Service's IDENTITY_ENDPOINT with its header in a file, else the machine's own (IMDS). */
  identity_endpoint: z.url({ protocol: /^https?$/ }).optional(),
  identity_header_file: file.optional(),

  /** Languages of the image or pool; default all of a container, what is documented of an interpreter pool. */
  languages: z
    .array(z.enum(['python', 'javascript', 'typescript', 'bash']))
    .min(1)
    .optional(),
  /** Interpreters inside an interpreter pool. */
  python: z.string().min(1).max(256).default('python3'),
  node: z.string().min(1).max(256).default('node'),

  /** When the session's role was granted: for ten minutes after it 403 is waited for instead of being final. */
  role_granted_at: z.iso.datetime().optional(),
  /** The pool's `cooldownPeriodInSeconds`: the service ends a session that has had no call for so long. */
  cooldown_ms: z.int().min(1000).max(3_600_000).default(300_000),
  /** `idle` ends a session after `idle_ms`; `paid-hour` keeps it to just before the end of the hour that is paid for. */
  reap: z.enum(['idle', 'paid-hour']).default('idle'),
  idle_ms: z.int().min(1000).max(3_600_000).default(60_000),
  /** Every call but a running execution ends after this. */
  api_timeout_ms: z.int().min(1000).max(600_000).default(30_000),
  /** From the first call of a session to the agent's first frame. */
  ready_timeout_ms: z.int().min(1000).max(600_000).default(60_000),
})
export type AzureConfig = z.output<typeof azureConfigSchema>
