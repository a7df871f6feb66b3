/** How the API server answers: objects, and Status objects for what went wrong. */
import type { ServerResponse } from 'node:http'
import type { Cause } from './schema-check.ts'

/** Thrown by whoever handles a request, answered as a Status. */
export class Refusal extends Error {
  readonly code: number
  readonly reason: string
  readonly causes: readonly Cause[]
  /** Seconds after which a client may come again. */
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

/** The object of a refusal, as it also stands in a watch. */
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

/** An object as some servers and gateways write it: null for what a claim may have and this one has not. */
export function withNulls(object: object): object {
  const { metadata, status } = object as { metadata?: object; status?: object }
  return {
    ...object,
    metadata: { labels: null, deletionTimestamp: null, ...metadata },
    status: status === undefined ? null : { conditions: null, sandbox: null, ...status },
  }
}

export const gone = (): Refusal => new Refusal(410, 'Expired', 'too old resource version')
