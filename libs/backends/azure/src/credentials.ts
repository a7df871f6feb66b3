/** Gets tokens of Microsoft Entra. docs/decisions/0018 says which of them need no @azure/identity. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import type { TokenCredential, TokenCredentialOptions } from '@azure/identity'
import { CofferdamError, isCofferdamError, unlessAborted } from '@cofferdam/contract'
import { z } from 'zod'
import type { AzureConfig, CREDENTIALS } from './config.ts'

export interface AccessToken {
  token: string
  expiresAtMs: number
}

export interface Credential {
  name: (typeof CREDENTIALS)[number]
  /** Returns null if it is not set up here. Throws if it is set up and failed. No message holds a secret. */
  token(audience: string, signal: AbortSignal): Promise<AccessToken | null>
}

/** The Azure CLI takes a second, or several on a busy machine. */
const CLI_MS = 15_000
/** IMDS does not answer on a machine without a managed identity. */
const IMDS_MS = 2_000
const IMDS = 'http://169.254.169.254/metadata/identity/oauth2/token'

const text = z.string().min(1).max(65_536)
const cliSchema = z.object({
  accessToken: text,
  expires_on: z.coerce.number().optional(),
  expiresOn: z.string().optional(),
})
const identitySchema = z.object({ access_token: text, expires_on: z.coerce.number().positive() })

/** The endpoint of a worker's managed identity, as App Service and Container Apps provide it. */
export interface ManagedIdentity {
  endpoint: string
  header: string
}

/**
 * Creates the credentials that the settings name, in order. `identity` is the worker's own, if it has one.
 * `options` go to every credential of @azure/identity.
 */
export function createCredentials(
  config: AzureConfig,
  identity?: ManagedIdentity,
  options: TokenCredentialOptions = {},
): Credential[] {
  return config.credentials.map((name) => ({
    name,
    token: (audience, signal) => {
      if (name === 'azure-cli') return fromCli(config.az, audience, signal)
      if (name === 'managed-identity') return fromManagedIdentity(config, identity, audience, signal)
      return fromSdk(name, config, options, audience, signal)
    },
  }))
}

type SdkName = Exclude<Credential['name'], 'azure-cli' | 'managed-identity'>

/** Creates a credential of @azure/identity, or returns null if it is not set up. */
async function sdkCredential(
  name: SdkName,
  config: AzureConfig,
  more: TokenCredentialOptions,
): Promise<TokenCredential | null> {
  const sdk = await import('@azure/identity')
  const { client_secret_file, client_certificate_file, federated_token_file } = config
  // Do not look the authority up: the operator names it, and the public cloud may not know it.
  const options = { authorityHost: config.authority, disableInstanceDiscovery: true, ...more }
  switch (name) {
    case 'client-secret': {
      if (client_secret_file === undefined) return null
      const { tenantId, clientId } = application(name, config)
      return new sdk.ClientSecretCredential(tenantId, clientId, await secretIn(client_secret_file), options)
    }
    case 'client-certificate': {
      if (client_certificate_file === undefined) return null
      const { tenantId, clientId } = application(name, config)
      const certificate = { certificatePath: client_certificate_file }
      return new sdk.ClientCertificateCredential(tenantId, clientId, certificate, options)
    }
    case 'workload-identity': {
      if (federated_token_file === undefined) return null
      const named = { ...application(name, config), tokenFilePath: federated_token_file }
      return new sdk.WorkloadIdentityCredential({ ...options, ...named })
    }
    case 'azure-powershell':
      return new sdk.AzurePowerShellCredential(more)
    case 'azure-developer-cli':
      return new sdk.AzureDeveloperCliCredential(more)
    case 'default':
      return new sdk.DefaultAzureCredential(more)
  }
}

/** Uses a new credential: a kept one would return a refused token again, or use a replaced secret. */
async function fromSdk(
  name: SdkName,
  config: AzureConfig,
  options: TokenCredentialOptions,
  audience: string,
  signal: AbortSignal,
): Promise<AccessToken | null> {
  const abortSignal = AbortSignal.any([signal, AbortSignal.timeout(config.api_timeout_ms)])
  const asked = async () => {
    const credential = await sdkCredential(name, config, options)
    return credential === null ? null : await credential.getToken(`${audience}/.default`, { abortSignal })
  }
  const given = await unlessAborted(asked(), abortSignal).catch((error: unknown) => {
    signal.throwIfAborted()
    if (isCofferdamError(error)) throw error
    if (error instanceof Error && error.name === 'CredentialUnavailableError') return null
    // The message may contain secrets, so only a code of OAuth or Entra is passed on.
    const [code] = /\bAADSTS\d+|\b(invalid|unauthorized|interaction)_[a-z_]+/.exec(String(error)) ?? []
    throw failure(name, code ?? 'gave no token', error)
  })
  return given === null ? null : { token: given.token, expiresAtMs: given.expiresOnTimestamp }
}

function application(name: SdkName, config: AzureConfig): { tenantId: string; clientId: string } {
  const { tenant_id: tenantId, client_id: clientId } = config
  if (tenantId === undefined || clientId === undefined)
    throw failure(name, 'tenant_id and client_id are not both set')
  return { tenantId, clientId }
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
    // Its output may contain secrets.
    throw failure('azure-cli', 'az account get-access-token failed; is someone logged in?')
  })
  if (stdout === null) return null
  const parsed = cliSchema.safeParse(json(stdout))
  if (!parsed.success) throw failure('azure-cli', 'az answered with something else')
  const { accessToken, expires_on: seconds, expiresOn } = parsed.data
  // Older releases give only local time.
  const expiresAtMs = seconds === undefined ? Date.parse(expiresOn ?? '') : seconds * 1000
  if (!Number.isFinite(expiresAtMs)) throw failure('azure-cli', 'az says no expiry')
  return { token: accessToken, expiresAtMs }
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
    // IMDS answers only on a machine with an identity.
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
