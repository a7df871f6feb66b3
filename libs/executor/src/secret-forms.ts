/**
 * The forms in which a known secret may be printed: clear, JSON-escaped, URL-encoded, hex, and base64 in both
 * alphabets, also inside a longer encoded text (three alignments). No redactor can find values that were
 * transformed otherwise (reversed, encrypted, split by separators).
 */

/** Shorter values would redact ordinary text. */
export const MIN_SECRET_BYTES = 12
/**
 * Bytes of a request's secrets for which all forms are made. Secrets beyond that are redacted in clear form
 * only. The tenant's secrets get all forms, because the policy bounds them. All forms together take about 25
 * times the bytes of the secrets.
 */
const FORMS_BUDGET_BYTES = 16 * 1024

/** Names of variables with secret values. AUTH but not AUTHOR. PWD is a directory, `_PWD` a password. */
const SECRET_NAME =
  /TOKEN|SECRET|PASSWORD|PASSWD|_PWD$|PASSPHRASE|CREDENTIAL|KEY|AUTH(?!OR)|COOKIE|DSN|CONNECTION_STRING|SIGNATURE/i

/** Every literal to redact: the forms of the tenant's values and of secret-looking variables. */
export function secretLiterals(
  tenantValues: readonly string[],
  env: Readonly<Record<string, string>>,
): Set<string> {
  const literals = new Set<string>()
  for (const value of tenantValues) addForms(literals, value)
  let budget = FORMS_BUDGET_BYTES
  for (const [name, value] of Object.entries(env)) {
    if (!SECRET_NAME.test(name)) continue
    budget -= value.length
    if (budget >= 0) addForms(literals, value)
    else addLiteral(literals, Buffer.from(value))
  }
  return literals
}

function addForms(literals: Set<string>, value: string): void {
  const bytes = Buffer.from(value)
  if (bytes.length < MIN_SECRET_BYTES) return
  for (const form of formsOf(value, bytes)) addLiteral(literals, form)
}

/** Literals are latin1 strings with one character per byte, so that they compare and hash as bytes. */
function addLiteral(literals: Set<string>, form: Buffer): void {
  if (form.length >= MIN_SECRET_BYTES) literals.add(form.toString('latin1'))
}

function* formsOf(value: string, bytes: Buffer): Generator<Buffer> {
  yield bytes
  const json = JSON.stringify(value).slice(1, -1)
  yield Buffer.from(json)
  yield Buffer.from(
    json.replace(/[\u0080-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`),
  )
  const hex = bytes.toString('hex')
  yield Buffer.from(hex)
  yield Buffer.from(hex.toUpperCase())
  for (const encoded of percentForms(bytes)) yield Buffer.from(encoded)
  for (const encoded of base64Forms(bytes)) {
    yield Buffer.from(encoded)
    yield Buffer.from(encoded.replaceAll('+', '-').replaceAll('/', '_'))
  }
}

/** The output of encodeURIComponent, Python's quote and form encoders, with codes in either case. */
function* percentForms(bytes: Buffer): Generator<string> {
  for (const safe of ['-._~', '-._~/', "-._~!'()*", '-._*']) {
    for (const space of ['%20', '+']) {
      const upper = percentEncode(bytes, safe, space)
      yield upper
      yield upper.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())
    }
  }
}

function percentEncode(bytes: Buffer, safe: string, space: string): string {
  return bytes
    .toString('latin1')
    .replace(/[^A-Za-z0-9]/g, (c) =>
      c === ' '
        ? space
        : safe.includes(c)
          ? c
          : `%${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
    )
}

/**
 * Base64 with and without padding, and for each alignment in a longer text the characters that depend only on
 * the secret.
 */
function* base64Forms(bytes: Buffer): Generator<string> {
  const whole = bytes.toString('base64')
  yield whole
  yield whole.replace(/=+$/, '')
  for (const lead of [0, 1, 2]) {
    const encoded = Buffer.concat([Buffer.alloc(lead), bytes]).toString('base64')
    // Characters at both ends also encode bits of the neighbouring bytes, so they are cut off.
    const from = Math.ceil((lead * 8) / 6)
    const to = Math.floor(((lead + bytes.length) * 8) / 6)
    yield encoded.slice(from, to)
  }
}
