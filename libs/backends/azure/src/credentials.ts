/**
 * Ways to an Entra token, each as thin as its wire: the Azure CLI, a client's secret, a workload's federated token, a managed
 * identity. @azure/identity speaks the same and is the witness in tests; at run time it would be half a second of imports.
 */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import type { AzureConfig, CREDENTIALS } from './config.ts'

export interface AccessToken {
  token: string
  expiresAtMs: number
}

export interface Credential {
  name: (typeof CREDENTIALS)[number]
  /** Null when it is not set up here. Throws when it is and failed; no message holds a secret. */
  token(audience: string, signal: AbortSignal): Promise<AccessToken | null>
}

/** The real CLI takes a second, on a busy machine several. */
const CLI_MS = 15_000
/** A machine without a managed identity does not answer at all at IMDS. */
const IMDS_MS = 2_000
const IMDS = 'http://169.254.169.254/metadata/identity/oauth2/token'
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

const text = z.string().min(1).max(65_536)
const cliSchema = z.object({
  accessToken: text,
  expires_on: z.coerce.number().optional(),
  expiresOn: z.string().optional(),
})
const oauthSchema = z.object({ access_token: text, expires_in: z.coerce.number().positive() })
const identitySchema = z.object({ access_token: text, expires_on: z.coerce.number().positive() })

/** Where a worker's managed identity gives tokens, as App Service and Container Apps tell it. */
export interface ManagedIdentity {
  endpoint: string
  header: string
}

/** Creates what the settings name, in their order. `identity` is what the worker was told of its own. */
export function createCredentials(config: AzureConfig, identity?: ManagedIdentity): Credential[] {
  const makers: Record<Credential['name'], Credential['token']> = {
    'azure-cli': (audience, signal) => fromCli(config.az, audience, signal),
    'client-secret': (audience, signal) => fromSecret(config, audience, signal),
    'workload-identity': (audience, signal) => fromFederation(config, audience, signal),
    'managed-identity': (audience, signal) => fromManagedIdentity(config, identity, audience, signal),
  }
  return config.credentials.map((name) => ({ name, token: makers[name] }))
}

async function fromCli(az: string, audience: string, signal: AbortSignal): Promise<AccessToken | null> {
  const args = ['account', 'get-access-token', '--output', 'json', '--resource', audience]
  const { stdout } = await promisify(execFile)(az, args, {
    timeout: CLI_MS,
    maxBuffer: 256 * 1024,
    signal,
  }).catch((error: NodeJS.ErrnoException) => {
    signal.throwIfAborted()
    if (error.code === 'ENOENT') return { stdout: null }
    // What it printed may hold anything.
    throw failure('azure-cli', 'az account get-access-token failed; is someone logged in?')
  })
  if (stdout === null) return null
  const parsed = cliSchema.safeParse(json(stdout))
  if (!parsed.success) throw failure('azure-cli', 'az answered with something else')
  const { accessToken, expires_on: seconds, expiresOn } = parsed.data
  // Older releases say it in local time only.
  const expiresAtMs = seconds === undefined ? Date.parse(expiresOn ?? '') : seconds * 1000
  if (!Number.isFinite(expiresAtMs)) throw failure('azure-cli', 'az says no expiry')
  return { token: accessToken, expiresAtMs }
}

async function fromSecret(
  config: AzureConfig,
  audience: string,
  signal: AbortSignal,
): Promise<AccessToken | null> {
  if (config.client_secret_file === undefined) return null
  const secret = await secretIn(config.client_secret_file)
  return await fromAuthority('client-secret', config, audience, { client_secret: secret }, signal)
}

async function fromFederation(
  config: AzureConfig,
  audience: string,
  signal: AbortSignal,
): Promise<AccessToken | null> {
  if (config.federated_token_file === undefined) return null
  // Read each time: Kubernetes writes a new one every hour.
  const assertion = await secretIn(config.federated_token_file)
  const fields = { client_assertion_type: ASSERTION_TYPE, client_assertion: assertion }
  return await fromAuthority('workload-identity', config, audience, fields, signal)
}

async function fromAuthority(
  name: Credential['name'],
  config: AzureConfig,
  audience: string,
  fields: Record<string, string>,
  signal: AbortSignal,
): Promise<AccessToken> {
  if (config.tenant_id === undefined || config.client_id === undefined)
    throw failure(name, 'tenant_id and client_id are not both set')
  const response = await fetch(`${config.authority}/${config.tenant_id}/oauth2/v2.0/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: config.client_id,
      scope: `${audience}/.default`,
      ...fields,
    }),
    redirect: 'error',
    signal: AbortSignal.any([signal, AbortSignal.timeout(config.api_timeout_ms)]),
  })
  const parsed = oauthSchema.safeParse(await answered(name, response))
  if (!parsed.success) throw failure(name, 'the authority answered with something else')
  return { token: parsed.data.access_token, expiresAtMs: Date.now() + parsed.data.expires_in * 1000 }
}

async function fromManagedIdentity(
  config: AzureConfig,
  told: ManagedIdentity | undefined,
  audience: string,
  signal: AbortSignal,
): Promise<AccessToken | null> {
  const name = 'managed-identity'
  const { identity_header_file: headerFile, client_id: clientId } = config
  const endpoint = told?.endpoint ?? config.identity_endpoint
  const header = told?.header ?? (headerFile === undefined ? null : await secretIn(headerFile))
  const url = new URL(endpoint ?? IMDS)
  url.searchParams.set('resource', audience)
  url.searchParams.set('api-version', header === null ? '2018-02-01' : '2019-08-01')
  if (clientId !== undefined) url.searchParams.set('client_id', clientId)
  const headers: Record<string, string> =
    header === null ? { Metadata: 'true' } : { 'X-IDENTITY-HEADER': header }
  const response = await fetch(url, {
    headers,
    redirect: 'error',
    signal: AbortSignal.any([
      signal,
      AbortSignal.timeout(endpoint === undefined ? IMDS_MS : config.api_timeout_ms),
    ]),
  }).catch((error: unknown) => {
    signal.throwIfAborted()
    // The machine's own address answers only where there is an identity.
    if (endpoint === undefined) return null
    throw failure(name, 'its endpoint does not answer', error)
  })
  if (response === null) return null
  const parsed = identitySchema.safeParse(await answered(name, response))
  if (!parsed.success) throw failure(name, 'its endpoint answered with something else')
  return { token: parsed.data.access_token, expiresAtMs: parsed.data.expires_on * 1000 }
}

async function answered(name: Credential['name'], response: Response): Promise<unknown> {
  const body = (await response.text()).slice(0, 262_144)
  if (response.ok) return json(body)
  const parsed = z.object({ error: z.string().regex(/^[a-z_]{1,40}$/) }).safeParse(json(body))
  throw failure(name, `${response.status} ${parsed.success ? parsed.data.error : ''}`.trim())
}

async function secretIn(path: string): Promise<string> {
  const secret = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new CofferdamError('backend_unavailable', `Azure: ${path} cannot be read.`, { cause: error })
  })
  return secret.trim()
}

const failure = (name: string, why: string, cause?: unknown): CofferdamError =>
  new CofferdamError('backend_unavailable', `Azure: ${name}: ${why}.`, cause === undefined ? {} : { cause })

function json(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return null
  }
}
