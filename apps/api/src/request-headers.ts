/** Headers of POST /executions that stand for fields of the body. */
import { CofferdamError, type ExecutionRequest } from '@cofferdam/contract'
import { z } from 'zod'
import { readTraceparent } from './trace-id.ts'

export const executionHeadersSchema = z.looseObject({
  'idempotency-key': z
    .string()
    .min(1)
    .max(255)
    .optional()
    .meta({ description: 'The same as idempotency_key of the body.' }),
  // Not validated: a broken traceparent is ignored (W3C trace-context §3.2).
  traceparent: z
    .string()
    .optional()
    .meta({ description: 'W3C trace context; the same as traceparent of the body.' }),
})

/**
 * The request with `Idempotency-Key` as its idempotency_key, and `traceparent` as its traceparent, where the body
 * has none. Throws `conflict` when body and header name different idempotency keys.
 */
export function withHeaders(
  request: ExecutionRequest,
  headers: z.output<typeof executionHeadersSchema>,
): ExecutionRequest {
  const key = headers['idempotency-key']
  if (key !== undefined && request.idempotency_key !== undefined && key !== request.idempotency_key) {
    throw new CofferdamError('conflict', 'The Idempotency-Key header and idempotency_key of the body differ.')
  }
  const traceparent = request.traceparent ?? readTraceparent(headers.traceparent)
  return {
    ...request,
    ...(key === undefined ? {} : { idempotency_key: key }),
    ...(traceparent === null ? {} : { traceparent }),
  }
}
