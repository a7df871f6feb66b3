/** Calls that create one new execution each, even if they are sent again because an answer was lost. */
import { call } from './call.ts'

const KEY_BYTES = 16

/** A key that nobody else uses. `crypto.randomUUID` is not there on plain http. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES))
  return `ui-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}

/**
 * Returns a function that posts `body` with an idempotency key. Until a call succeeds, a retry with the same
 * path and body sends the same key. So a retry after a lost answer creates no second execution.
 */
export function createAskOnce(): <T>(path: string, body: object) => Promise<T> {
  let last: { text: string; key: string } | null = null
  return async <T>(path: string, body: object): Promise<T> => {
    const text = path + JSON.stringify(body)
    if (last?.text !== text) last = { text, key: newKey() }
    const answer = await call<T>('POST', path, { body: { ...body, idempotency_key: last.key } })
    last = null
    return answer
  }
}
