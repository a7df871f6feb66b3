/**
 * A vendor's published description of its wire, and the double that is held to it. A double that answers
 * otherwise would agree with our client and with nobody else, so every answer is checked as it is sent, in
 * each test that uses the double.
 */
import type { z } from 'zod'

/** One operation as its vendor publishes it. */
export interface Operation {
  /** Where: repository and path, or page, with its version. */
  source: string
  method: string
  /** Matches the whole path, without the query. */
  path: RegExp
  /** Left out where the body is none of JSON, or is checked elsewhere. */
  request?: z.ZodType
  /** By status below 400; null for an answer without JSON. */
  answers: Readonly<Record<number, z.ZodType | null>>
}

export interface Published {
  /** Throws for an answer that the vendor does not describe: the double is wrong. */
  checkAnswer(method: string, path: string, status: number, body: unknown): void
  /**
   * What is wrong with a request's body; null for one as published, or of an operation that has no
   * description of it.
   */
  faultOfRequest(method: string, path: string, body: unknown): string | null
}

/** `refusal`: the body of every answer from 400 on. */
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
      // What JSON leaves out is not there for anybody.
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

/** The first things that are wrong, with their places; null for nothing. */
export function faultOf(schema: z.ZodType, value: unknown): string | null {
  const checked = schema.safeParse(value)
  if (checked.success) return null
  return checked.error.issues
    .slice(0, 5)
    .map(({ path, message }) => `${path.join('.') || 'body'}: ${message}`)
    .join('; ')
}
