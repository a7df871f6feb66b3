/** Hash over a request's canonical JSON. Tells whether requests with one idempotency key are the same. */
import { createHash } from 'node:crypto'
import type { ExecutionRequest } from '@cofferdam/contract'

/** SHA-256 of the request without `idempotency_key` and `traceparent`, independent of the order of keys. */
export function bodyHash(request: ExecutionRequest): string {
  const { idempotency_key: _key, traceparent: _trace, ...body } = request
  return createHash('sha256').update(canonical(body)).digest('hex')
}

/** Name of an idempotency key in Redis, hashed so that a key of any length has a bounded name. */
export function idempotencyName(request: ExecutionRequest): string {
  if (request.idempotency_key === undefined) return ''
  return `${request.tenant_id}:${createHash('sha256').update(request.idempotency_key).digest('hex')}`
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const entries = Object.entries(value).filter(([, v]) => v !== undefined)
  entries.sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([k, v]) => `${JSON.stringify(k)}:${canonical(v)}`).join(',')}}`
}
