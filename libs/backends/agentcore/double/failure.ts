/** Errors of the service: class, HTTP status, and the answer that a client receives. */
import type { ServerResponse } from 'node:http'
import { AGENTCORE } from './published.ts'

const STATUS: Record<string, number> = {
  AccessDeniedException: 403,
  ConflictException: 409,
  ExpiredTokenException: 403,
  InternalServerException: 500,
  ResourceNotFoundException: 404,
  ServiceQuotaExceededException: 402,
  ThrottlingException: 429,
  UnknownOperationException: 404,
  ValidationException: 400,
}

export class Failure extends Error {
  readonly type: string
  readonly reason: string | undefined
  /** For a ValidationException: the invalid field. */
  readonly field: string | undefined

  constructor(type: string, message: string, reason?: string, field?: string) {
    super(message)
    this.type = type
    this.reason = reason
    this.field = field
  }
}

/** Sends an answer. Throws if the answer does not have the published shape. */
export const reply = (response: ServerResponse, status: number, body: object): void => {
  const { method = '', url = '/' } = response.req
  AGENTCORE.checkAnswer(method, new URL(url, 'http://double').pathname, status, body)
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}

/** Sends an error in the form of restJson1: the class in a header, the message in the body. */
export function fail(response: ServerResponse, failure: Failure): void {
  response.setHeader('x-amzn-errortype', `${failure.type}:http://internal.amazon.com/coral/`)
  const { field, message } = failure
  // AWS's service model requires a `reason` in a ValidationException.
  const reason =
    failure.reason ?? (failure.type === 'ValidationException' ? 'FieldValidationFailed' : undefined)
  reply(response, STATUS[failure.type] ?? 500, {
    message,
    ...(reason === undefined ? {} : { reason }),
    ...(field === undefined ? {} : { fieldList: [{ name: field, message }] }),
  })
}
