/** Refusals of the service: class, status, and what a client sees of them. */
import type { ServerResponse } from 'node:http'

const STATUS: Record<string, number> = {
  AccessDeniedException: 403,
  ConflictException: 409,
  ExpiredTokenException: 403,
  InternalServerException: 500,
  ResourceNotFoundException: 404,
  ServiceQuotaExceededException: 402,
  ThrottlingException: 429,
  ValidationException: 400,
}

export class Failure extends Error {
  readonly type: string
  readonly reason: string | undefined
  /** Of a ValidationException: the field that is meant. */
  readonly field: string | undefined

  constructor(type: string, message: string, reason?: string, field?: string) {
    super(message)
    this.type = type
    this.reason = reason
    this.field = field
  }
}

export const reply = (response: ServerResponse, status: number, body: object): void => {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}

/** As restJson1 says it: the class in a header, the words in the body. */
export function fail(response: ServerResponse, failure: Failure): void {
  response.setHeader('x-amzn-errortype', `${failure.type}:http://internal.amazon.com/coral/`)
  const { reason, field, message } = failure
  reply(response, STATUS[failure.type] ?? 500, {
    message,
    ...(reason === undefined ? {} : { reason }),
    ...(field === undefined ? {} : { fieldList: [{ name: field, message }] }),
  })
}
