/** Refusals of the service: class, status, and what a client sees of them. */
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
  /** Of a ValidationException: the field that is meant. */
  readonly field: string | undefined

  constructor(type: string, message: string, reason?: string, field?: string) {
    super(message)
    this.type = type
    this.reason = reason
    this.field = field
  }
}

/** Throws for what is not as published. */
export const reply = (response: ServerResponse, status: number, body: object): void => {
  const { method = '', url = '/' } = response.req
  AGENTCORE.checkAnswer(method, new URL(url, 'http://double').pathname, status, body)
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}

/** As restJson1 says it: the class in a header, the words in the body. */
export function fail(response: ServerResponse, failure: Failure): void {
  response.setHeader('x-amzn-errortype', `${failure.type}:http://internal.amazon.com/coral/`)
  const { field, message } = failure
  // The model requires it of this class.
  const reason =
    failure.reason ?? (failure.type === 'ValidationException' ? 'FieldValidationFailed' : undefined)
  reply(response, STATUS[failure.type] ?? 500, {
    message,
    ...(reason === undefined ? {} : { reason }),
    ...(field === undefined ? {} : { fieldList: [{ name: field, message }] }),
  })
}
