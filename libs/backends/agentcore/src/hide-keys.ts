/**
 * What the vendor's SDK throws, without our keys. An error goes to logs with all that hangs on it, and the service may say again
 * what it was sent: a refused signature comes with the request that should have been signed, its security token included.
 */
import { isCofferdamError } from '@cofferdam/contract'

/** A client of the SDK, which knows what it signs with. */
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
/** Ids of any account's keys (IAM, "unique identifiers"). */
const KEY_ID = /\b(?:AKIA|ASIA)[A-Z0-9]{12,}/g
/** Shorter values are none that AWS gives out, and stand in ordinary text by chance. */
const KEY_MIN = 12
/** What the SDK adds to an answer that it cannot read. */
const FOR_DEVELOPERS = /\s*Deserialization error: to see the raw response.*$/s
/** Of a refusal's fields, enough to see which; their values are never shown. */
const FIELDS_MAX = 10

/** Runs one call; what it throws has the class's name, its words and why a request was found invalid, and no more of the original. */
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

/** What an error that came through `hidingKeys` says more. */
export interface Refused {
  refusal?: {
    /** Of HTTP; an exception within a stream has none. */
    status?: number
    /** Of an invalid request, the reason and the names of the fields. */
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

/** Keys that could not be had were in no request. */
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
