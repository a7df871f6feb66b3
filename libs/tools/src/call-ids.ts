/** Turns identifiers of SDKs into identifiers that the API accepts. */

/** The API's names: 1 to 128 letters, digits or `_ . @ -` that begin with a letter or digit. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}$/

/** How many hex digits of a digest are kept: 128 bits, which tell any two texts apart. */
const DIGEST_LENGTH = 32

/** SHA-256 of `text` in hex, cut to 128 bits. */
async function digestOf(text: string): Promise<string> {
  const bytes = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
  const hex = Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('')
  return hex.slice(0, DIGEST_LENGTH)
}

/**
 * The key of a session, made from a conversation's own identifier, such as LangGraph's `thread_id`. An
 * identifier that the API does not accept becomes a digest, so different identifiers never share a session.
 * Undefined without an identifier.
 */
export async function sessionKey(id: string | undefined): Promise<string | undefined> {
  if (id === undefined || id === '') return undefined
  return NAME.test(id) ? id : `conversation-${await digestOf(id)}`
}

/**
 * The SDK's ID of a tool call in the form that the audit row accepts. Undefined if no character can be kept.
 */
export function toolCallName(id: string | undefined): string | undefined {
  const name = id
    ?.replaceAll(/[^A-Za-z0-9_.@-]/g, '_')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 128)
  return name !== undefined && NAME.test(name) ? name : undefined
}

/**
 * Whether an ID is one of a kind: its last part has at least eight letters and digits, among them a digit.
 * Some models number the calls of each answer instead (`functions.run_code:0`, `call_1`), so that two
 * conversations have the same IDs.
 */
export function isUnique(id: string): boolean {
  const last = /[A-Za-z0-9]+$/.exec(id)?.[0] ?? ''
  return last.length >= 8 && /[0-9]/.test(last)
}

/**
 * The idempotency key of a call that the SDK may repeat, for example when it resumes a run. `request` is part
 * of the key, so another program with the same ID is another execution. Undefined for an ID that is not
 * unique.
 */
export async function idempotencyKey(
  toolCallId: string | undefined,
  request: unknown,
): Promise<string | undefined> {
  if (toolCallId === undefined || !isUnique(toolCallId)) return undefined
  return `tool-${await digestOf(`${toolCallId}\n${JSON.stringify(request)}`)}`
}
