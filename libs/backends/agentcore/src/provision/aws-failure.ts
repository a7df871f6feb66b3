/** What a refusal of AWS means to provisioning. Sorted by name: `$retryable` is not set on all that may be retried. */
import { hidingKeys, type KeyedClient } from '../hide-keys.ts'

export type AwsFailureKind =
  | 'throttled'
  | 'quota'
  | 'conflict'
  | 'gone'
  | 'denied'
  | 'invalid'
  /** No answer, or one that says nothing: the call may have had its effect. */
  | 'away'

/** A failure of the service; its text names actions and ARNs, never credentials, and is for operators. */
export class AwsFailure extends Error {
  readonly kind: AwsFailureKind

  constructor(kind: AwsFailureKind, message: string, cause: unknown) {
    super(message, { cause })
    this.name = 'AwsFailure'
    this.kind = kind
  }
}

const KINDS: Readonly<Record<string, AwsFailureKind>> = {
  ThrottlingException: 'throttled',
  ThrottledException: 'throttled',
  Throttling: 'throttled',
  ServiceQuotaExceededException: 'quota',
  LimitExceededException: 'quota',
  ConflictException: 'conflict',
  ConcurrentModificationException: 'conflict',
  EntityAlreadyExistsException: 'conflict',
  DeleteConflictException: 'conflict',
  ResourceNotFoundException: 'gone',
  NoSuchEntityException: 'gone',
  AccessDeniedException: 'denied',
  AccessDenied: 'denied',
  UnauthorizedException: 'denied',
  UnrecognizedClientException: 'denied',
  InvalidSignatureException: 'denied',
  InvalidClientTokenId: 'denied',
  ExpiredTokenException: 'denied',
  CredentialsProviderError: 'denied',
  ValidationException: 'invalid',
  ValidationError: 'invalid',
  MalformedPolicyDocumentException: 'invalid',
}
/** Enough for an ARN and what is wrong with it. */
const SAID_MAX = 400

/** Runs one call of an SDK; what it throws becomes an `AwsFailure`. `what` begins the message: `CreateRole`. */
export async function calling<T>(client: KeyedClient, what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await hidingKeys(client, call)
  } catch (error) {
    const name = error instanceof Error ? error.name : 'unknown error'
    const said = error instanceof Error ? error.message.slice(0, SAID_MAX) : String(error)
    throw new AwsFailure(KINDS[name] ?? 'away', `${what}: ${name}: ${said}`, error)
  }
}

/** Whether `error` is a failure of one of these kinds. */
export function isAwsFailure(error: unknown, ...kinds: AwsFailureKind[]): error is AwsFailure {
  return error instanceof AwsFailure && (kinds.length === 0 || kinds.includes(error.kind))
}
