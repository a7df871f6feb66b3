/**
 * The one door through which text leaves in telemetry: redacted first, then cut. In this order, because a secret that is
 * cut in half is no longer recognised by a redactor.
 */

/** Longest text that leaves, in UTF-16 units: enough for a stack trace, small enough for 512 spans a batch. */
export const TEXT_MAX = 2048

/**
 * Text beyond this is not looked at. The SDK cuts attribute values here while they are set, so a text of this length may
 * end in half a secret; its last SECRET_MAX units are dropped after redaction.
 */
export const SCAN_MAX = 8192

/** The longest secret: contract/tenant.ts bounds the literal values of a tenant to it. */
const SECRET_MAX = 4096

/** Short texts repeat (names, keys, backends): about 0.5 MB at most, forgotten all at once when full. */
const MEMO_ENTRIES = 4096
const MEMO_LENGTH = 64

/** What stands for a text whose redaction failed: it must not leave as it is. */
const FAILED = '[redaction failed]'

export type GuardText = (text: string) => string

/** Makes the door from a redactor. Never throws. */
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
