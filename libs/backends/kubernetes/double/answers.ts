/** Answers of the API server: objects, and Status objects for errors. */
import type { ServerResponse } from 'node:http'
import type { Cause } from './schema-check.ts'

/** An error that is answered as a Status. */
export class Refusal extends Error {
  readonly code: number
  readonly reason: string
  readonly causes: readonly Cause[]
  /** Seconds after which a client may retry. */
  readonly retryAfter: number | null

  constructor(
    code: number,
    reason: string,
    message: string,
    more: { causes?: readonly Cause[]; retryAfter?: number } = {},
  ) {
    super(message)
    this.code = code
    this.reason = reason
    this.causes = more.causes ?? []
    this.retryAfter = more.retryAfter ?? null
  }
}

/** The Status object of a refusal, as in answers and watches. */
export const statusObject = ({ code, reason, message, causes, retryAfter }: Refusal): object => ({
  kind: 'Status',
  apiVersion: 'v1',
  metadata: {},
  status: 'Failure',
  reason,
  message,
  code,
  ...(causes.length === 0 && retryAfter === null
    ? {}
    : {
        details: {
          ...(causes.length === 0 ? {} : { causes }),
          ...(retryAfter === null ? {} : { retryAfterSeconds: retryAfter }),
        },
      }),
})

export function refuse(response: ServerResponse, refusal: Refusal): void {
  if (refusal.retryAfter !== null) response.setHeader('Retry-After', String(refusal.retryAfter))
  json(response, refusal.code, statusObject(refusal))
}

export function json(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}

/** Writes absent optional fields of a claim as null, like some servers and gateways. */
export function withNulls(object: object): object {
  const { metadata, status } = object as { metadata?: object; status?: object }
  return {
    ...object,
    metadata: { labels: null, deletionTimestamp: null, ...metadata },
    status: status === undefined ? null : { conditions: null, sandbox: null, ...status },
  }
}

export const gone = (): Refusal => new Refusal(410, 'Expired', 'too old resource version')
