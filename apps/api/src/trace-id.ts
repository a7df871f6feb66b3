/** The trace that a request belongs to: the caller's if it sent a `traceparent`, else a new one. */
import { randomBytes } from 'node:crypto'
import { traceparentSchema } from '@cofferdam/contract'

const ALL_ZERO_TRACE = '0'.repeat(32)
const ALL_ZERO_SPAN = '0'.repeat(16)

/** A valid W3C `traceparent`, or null. A malformed header is ignored, as the standard requires. */
export function readTraceparent(header: unknown): string | null {
  const parsed = traceparentSchema.safeParse(header)
  if (!parsed.success) return null
  const [, traceId, spanId] = parsed.data.split('-')
  return traceId === ALL_ZERO_TRACE || spanId === ALL_ZERO_SPAN ? null : parsed.data
}

/** The 32 hex digits of a traceparent's trace. */
export const traceIdOf = (traceparent: string): string => traceparent.slice(3, 35)

export const newTraceId = (): string => randomBytes(16).toString('hex')
