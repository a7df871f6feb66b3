/** Finds the page and the filter for a text from the search box, by the form of the text. */
import type { Query } from '../address/address.ts'

export interface SearchTarget {
  path: string
  query: Query
}

/** IDs, traces, hashes and hosts are recognised by their form. Anything else is taken for an agent. */
export function searchTarget(text: string): SearchTarget | null {
  const word = text.trim()
  if (word === '') return null
  const lower = word.toLowerCase()
  if (/^exe_[0-9a-f]{32}$/.test(lower)) return { path: `/executions/${lower}`, query: {} }
  if (/^[0-9a-f]{64}$/.test(lower)) return { path: '/executions', query: { code_hash: lower } }
  if (/^[0-9a-f]{32}$/.test(lower)) return { path: '/executions', query: { trace_id: lower } }
  if (/^[\w-]+(\.[\w-]+)+(:\d{1,5})?$/.test(word))
    return { path: '/executions', query: { outbound_host: word } }
  return { path: '/executions', query: { agent_id: word } }
}
