/**
 * All text in telemetry passes this guard, which redacts it and then cuts it. In this order, because a
 * redactor does not recognise half of a secret.
 */

/** Longest text in UTF-16 units: enough for a stack trace, small enough for batches of 512 spans. */
export const TEXT_MAX = 2048

/**
 * Text beyond this length is dropped unread. The SDK cuts attribute values to the same length, so a text of
 * this length may end in half of a secret. So its last SECRET_MAX units are dropped after redaction.
 */
export const SCAN_MAX = 8192

/** The longest secret: the bound for values of a tenant's `redact`. */
const SECRET_MAX = 4096

/** Cache of short texts that repeat (names, keys, backends). At most about 0.5 MB. Cleared when full. */
const MEMO_ENTRIES = 4096
const MEMO_LENGTH = 64

const FAILED = '[redaction failed]'

export type GuardText = (text: string) => string

/** The guard never throws. */
export function createTextGuard(redact: (text: string) => string): GuardText {
  const memo = new Map<string, string>()
  return (text) => {
    if (text.length > MEMO_LENGTH) return guard(text, redact)
    const known = memo.get(text)
    if (known !== undefined) return known
    if (memo.size >= MEMO_ENTRIES) memo.clear()
    const guarded = guard(text, redact)
    memo.set(text, guarded)
    return guarded
  }
}

function guard(text: string, redact: (text: string) => string): string {
  const mayBeCut = text.length >= SCAN_MAX
  try {
    const redacted = redact(mayBeCut ? text.slice(0, SCAN_MAX) : text)
    const whole = mayBeCut ? redacted.slice(0, Math.max(0, redacted.length - SECRET_MAX)) : redacted
    return whole.length > TEXT_MAX || mayBeCut ? `${whole.slice(0, TEXT_MAX - 1)}…` : whole
  } catch {
    return FAILED
  }
}
