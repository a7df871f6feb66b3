/**
 * Checks a double against its vendor's published wire format. A wrong double could agree with our client and
 * nobody else, so every answer is checked when it is sent, in each test.
 */
import type { z } from 'zod'

/** One operation as its vendor publishes it. */
export interface Operation {
  /** Source: repository and path, or page, with its version. */
  source: string
  method: string
  /** Matches the whole path, without the query. */
  path: RegExp
  /** Absent if the body is not JSON or is checked elsewhere. */
  request?: z.ZodType
  /** By status below 400; null for an answer without JSON. */
  answers: Readonly<Record<number, z.ZodType | null>>
}

export interface Published {
  /** Throws for an answer that the vendor does not describe, which is a bug of the double. */
  checkAnswer(method: string, path: string, status: number, body: unknown): void
  /** Error in a request's body; null if it is valid or if its operation has no description of it. */
  faultOfRequest(method: string, path: string, body: unknown): string | null
}

/** `refusal`: the body of every answer with status 400 or above. */
export function createPublished(
  vendor: string,
  operations: readonly Operation[],
  refusal: z.ZodType,
): Published {
  const find = (method: string, path: string): Operation | undefined =>
    operations.find((one) => one.method === method && one.path.test(path))

  return {
    checkAnswer(method, path, status, body) {
      const operation = find(method, path)
      const what = `${method} ${path} answered with ${status}`
      if (operation === undefined && status < 400)
        throw new Error(`the double of ${vendor} has an operation that is not published: ${what}`)
      const schema = status >= 400 ? refusal : operation?.answers[status]
      if (schema === undefined)
        throw new Error(`the double of ${vendor} has a status that is not published: ${what}`)
      // Check what clients receive: JSON drops undefined fields.
      const sent: unknown = body === undefined ? undefined : JSON.parse(JSON.stringify(body))
      const why = schema === null ? (sent === undefined ? null : 'there is a body') : faultOf(schema, sent)
      if (why !== null)
        throw new Error(
          `the double of ${vendor} is not as published: ${what}: ${why} (${operation?.source ?? 'its errors'})`,
        )
    },
    faultOfRequest(method, path, body) {
      const schema = find(method, path)?.request
      return schema === undefined ? null : faultOf(schema, body)
    },
  }
}

/** The first errors with their paths; null for none. */
export function faultOf(schema: z.ZodType, value: unknown): string | null {
  const checked = schema.safeParse(value)
  if (checked.success) return null
  return checked.error.issues
    .slice(0, 5)
    .map(({ path, message }) => `${path.join('.') || 'body'}: ${message}`)
    .join('; ')
}
