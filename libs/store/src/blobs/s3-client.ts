/**
 * The client of a bucket: the AWS SDK, loaded when the first bucket is opened. The SDK finds the credentials,
 * and repeats what was throttled, failed or not answered. Each operation ends within OPERATION_MS.
 */
import { CofferdamError, isCofferdamError, unlessAborted } from '@cofferdam/contract'
import type * as s3 from '@aws-sdk/client-s3'

/** Where blobs lie in an object store. */
export interface BucketSettings {
  bucket: string
  /** Before every key, without slashes at its ends. May be empty. */
  prefix: string
  /** Of a store that is not AWS. */
  endpoint?: string | undefined
  /** Without it the SDK looks for one, as it does for credentials. */
  region?: string | undefined
  /** Put the bucket into the path, not into the host name. */
  pathStyle: boolean
}

/**
 * Tries of one request. The SDK's pauses between them (up to 0.1, 0.2 and 0.4 s, five times that when
 * throttled) fit into OPERATION_MS.
 */
const ATTEMPTS = 4
/** Below the executor's COMMIT_TIMEOUT_MS (15 s), so that the executor sees why the operation failed. */
const OPERATION_MS = 10_000
const CONNECT_MS = 2000
/** When no byte arrives for this long, the connection is cut and the request repeated. */
const SILENT_MS = 4000

type Sdk = typeof s3

export interface Bucket {
  readonly sdk: Sdk
  readonly settings: BucketSettings
  /** The key of an object below the prefix. */
  keyOf(path: string): string
  /** Runs one operation. Throws `store_unavailable` or `config_invalid` that says what failed. */
  run<T>(what: string, operation: (client: s3.S3Client, abortSignal: AbortSignal) => Promise<T>): Promise<T>
  close(): void
}

export async function openBucket(settings: BucketSettings): Promise<Bucket> {
  const sdk = await import('@aws-sdk/client-s3')
  const { prefix, endpoint, region, pathStyle } = settings
  const client = new sdk.S3Client({
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(region === undefined ? {} : { region }),
    forcePathStyle: pathStyle,
    maxAttempts: ATTEMPTS,
    retryMode: 'standard',
    requestHandler: { connectionTimeout: CONNECT_MS, socketTimeout: SILENT_MS },
  })
  return {
    sdk,
    settings,
    keyOf: (path) => (prefix === '' ? path : `${prefix}/${path}`),
    async run(what, operation) {
      const deadline = AbortSignal.timeout(OPERATION_MS)
      try {
        return await unlessAborted(operation(client, deadline), deadline)
      } catch (error) {
        throw toBucketError(error, what)
      }
    },
    close: () => client.destroy(),
  }
}

/** The store's word for a failure, such as `NoSuchKey` or `SlowDown`. */
export const failureName = (error: unknown): string =>
  error instanceof Error ? (isCofferdamError(error) ? failureName(error.cause) : error.name) : ''

/**
 * True when nothing is stored under the key. False when the bucket does not exist, because that is a fault of
 * the configuration.
 */
export const isMissing = (error: unknown): boolean => ['NoSuchKey', 'NotFound'].includes(failureName(error))

/** Failures that pass only when somebody changes the configuration or the bucket. */
const SETUP: Readonly<Record<string, string>> = {
  NoSuchBucket: 'Create the bucket, or correct COFFERDAM_BLOBS.',
  PermanentRedirect: 'Set COFFERDAM_BLOBS_REGION to the region of the bucket.',
  AuthorizationHeaderMalformed: 'Set COFFERDAM_BLOBS_REGION to the region of the bucket.',
  AccessDenied: 'Give these credentials the rights that docs/operations/object-storage.md lists.',
  InvalidAccessKeyId: 'Correct the credentials.',
  SignatureDoesNotMatch: 'Correct the credentials, and COFFERDAM_BLOBS_ENDPOINT if a proxy changes the host.',
  CredentialsProviderError:
    'Give this process credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role.',
}

/** Callers see the message, so it names neither bucket nor key. */
function toBucketError(error: unknown, what: string): CofferdamError {
  const name = failureName(error)
  const text = error instanceof Error ? error.message : String(error)
  const fix = text.includes('Region is missing') ? 'Set COFFERDAM_BLOBS_REGION.' : SETUP[name]
  if (fix !== undefined)
    return new CofferdamError('config_invalid', `The object store refused ${what} (${name}). ${fix}`, {
      cause: error,
    })
  const reason = name === 'TimeoutError' || name === 'AbortError' ? 'it did not answer in time' : name
  return new CofferdamError('store_unavailable', `The object store did not do ${what}: ${reason}.`, {
    cause: error,
  })
}
