/**
 * Removes our keys from the SDK's errors, which logs show with all their fields. The service may repeat what
 * it received: a refused signature comes back with the canonical request and its security token.
 */
import { isCofferdamError } from '@cofferdam/contract'

/** A client of the SDK with the keys that it signs with. */
export interface KeyedClient {
  config: {
    credentials(): Promise<{
      accessKeyId: string
      secretAccessKey: string
      sessionToken?: string | undefined
    }>
  }
}

const HIDDEN = '<redacted>'
/** Key IDs of any AWS account (IAM, "unique identifiers"). */
const KEY_ID = /\b(?:AKIA|ASIA)[A-Z0-9]{12,}/g
/** AWS issues no shorter keys, and shorter values occur in ordinary text by chance. */
const KEY_MIN = 12
/** Text that the SDK adds to an answer that it cannot read. */
const FOR_DEVELOPERS = /\s*Deserialization error: to see the raw response.*$/s
/** Maximum number of names of invalid fields. Their values are never shown. */
const FIELDS_MAX = 10

/**
 * Runs one call. Its error keeps only the class name, the message, the HTTP status and why a request was
 * invalid.
 */
export async function hidingKeys<T>(client: KeyedClient, call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (!(error instanceof Error) || isCofferdamError(error)) throw error
    const keys = await keysOf(client, error)
    const hide = (text: string): string =>
      keys.reduce((left, key) => left.replaceAll(key, HIDDEN), text).replaceAll(KEY_ID, HIDDEN)
    const words = hide(error.message).replace(FOR_DEVELOPERS, '')
    throw Object.assign(new Error(words), { name: hide(error.name), refusal: refusalOf(error) })
  }
}

/** Details of an error that passed `hidingKeys`. */
export interface Refused {
  refusal?: {
    /** HTTP status; an exception within a stream has none. */
    status?: number
    /** For an invalid request: the reason and the names of the fields. */
    invalid?: string
    fields?: string[]
  }
}

function refusalOf(error: Error): NonNullable<Refused['refusal']> {
  const { reason, fieldList, $metadata } = error as {
    reason?: unknown
    fieldList?: unknown
    $metadata?: { httpStatusCode?: number }
  }
  const status = $metadata?.httpStatusCode
  const fields = (Array.isArray(fieldList) ? fieldList : []).flatMap((field: unknown) =>
    isWord((field as { name?: unknown } | null)?.name) ? [(field as { name: string }).name] : [],
  )
  return {
    ...(status === undefined ? {} : { status }),
    ...(isWord(reason) ? { invalid: reason } : {}),
    ...(fields.length > 0 ? { fields: fields.slice(0, FIELDS_MAX) } : {}),
  }
}

const isWord = (value: unknown): value is string =>
  typeof value === 'string' && /^[\w.[\]]{1,64}$/.test(value)

/**
 * Returns the keys to hide. Returns none if the credentials could not be loaded, because then no request
 * contained them.
 */
async function keysOf({ config }: KeyedClient, { name }: Error): Promise<string[]> {
  if (name === 'CredentialsProviderError') return []
  try {
    const { accessKeyId, secretAccessKey, sessionToken } = await config.credentials()
    return [accessKeyId, secretAccessKey, sessionToken].filter(
      (key): key is string => key !== undefined && key.length >= KEY_MIN,
    )
  } catch {
    return []
  }
}
