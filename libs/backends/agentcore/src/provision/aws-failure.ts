/** What an AWS error means for provisioning, by its name: `$retryable` is not set on all retryable errors. */
import { hidingKeys, type KeyedClient } from '../hide-keys.ts'

export type AwsFailureKind =
  | 'throttled'
  | 'quota'
  | 'conflict'
  | 'gone'
  | 'denied'
  | 'invalid'
  /** No answer, or one that says nothing: the call may have taken effect. */
  | 'away'

/** A failure of the service. Its text, for operators, names actions and ARNs but no credentials. */
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

/** Runs an SDK call and turns its errors into `AwsFailure`. `what` starts the message: `CreateRole`. */
export async function calling<T>(client: KeyedClient, what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await hidingKeys(client, call)
  } catch (error) {
    const name = error instanceof Error ? error.name : 'unknown error'
    const said = error instanceof Error ? error.message.slice(0, SAID_MAX) : String(error)
    throw new AwsFailure(KINDS[name] ?? 'away', `${what}: ${name}: ${said}`, error)
  }
}

export function isAwsFailure(error: unknown, ...kinds: AwsFailureKind[]): error is AwsFailure {
  return error instanceof AwsFailure && (kinds.length === 0 || kinds.includes(error.kind))
}
