/** Durations as people write them in a query string: `30s`, `1500ms`, or plain `0`. */
import { z } from 'zod'

/** The longest a request may wait for an ending: load balancers commonly cut idle connections after 60 s. */
const MAX_WAIT_MS = 60_000

/**
 * Milliseconds of `30s`, `1.5s`, `1500ms` or `0`; null when the text is none of them.
 * A bare number other than 0 is refused, because its unit would be a guess.
 */
export function parseDurationMs(text: string): number | null {
  const match = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s)$/.exec(text)
  if (match === null) return text === '0' ? 0 : null
  const [, amount, unit] = match
  return Math.round(Number(amount) * (unit === 's' ? 1000 : 1))
}

/** `?wait=`: 0 to 60 s; absent means don't wait. */
export const waitSchema = z
  .string()
  .max(20)
  .regex(/^(0|\d{1,9}(\.\d{1,3})?(ms|s))$/, 'expected a duration such as 30s or 1500ms')
  .refine((text) => (parseDurationMs(text) ?? 0) <= MAX_WAIT_MS, 'expected at most 60s')
  .meta({ description: 'How long to wait for the ending, 0 to 60s, e.g. `30s` or `1500ms`.', example: '30s' })
