/** Asks the API to run an execution again. */
import type { Rerun } from '@cofferdam/client'
import { call } from '../../../api/call.ts'
import type { RerunEdit } from './edit-of.ts'

const KEY_BYTES = 16

/** A key that nobody else uses. `crypto.randomUUID` is not there on plain http. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES))
  return `ui-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}

/**
 * Returns a function that asks. As long as the edit stays the same, a second try has the same idempotency
 * key, so that an answer that was lost on its way leaves no second execution.
 */
export function createAsk(id: string): (edit: RerunEdit) => Promise<Rerun> {
  let last: { text: string; key: string } | null = null
  return (edit) => {
    const text = JSON.stringify(edit)
    if (last?.text !== text) last = { text, key: newKey() }
    const body = { edit, idempotency_key: last.key }
    return call<Rerun>('POST', `/v1/executions/${encodeURIComponent(id)}/rerun`, { body })
  }
}
