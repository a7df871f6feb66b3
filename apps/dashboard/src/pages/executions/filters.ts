/** The filters of the list. Their names are those of the API’s queries; their values are in the address. */
import { address } from '../../address/address.ts'
import { ENDINGS } from '../../words/endings.ts'

export interface FilterKind {
  /** Its name in the address and in the API’s query. */
  name: string
  words: string
  /** Whether only ended executions can match this filter. */
  isOfEnd?: boolean
  /** The possible values. Without this list, any text is allowed. */
  values?: readonly (readonly [value: string, words: string])[]
}

const named = (names: readonly string[]) => names.map((name) => [name, name] as const)
const LANGUAGES = ['script', 'script/python', 'script/javascript', 'script/typescript', 'script/bash']
const CLASSES = ['ok', 'error', 'timeout', 'oom', 'cap_exceeded', 'provisioning', 'cancelled']

/** Every filter that one can add, in the order of the menu. */
export const FILTERS: readonly FilterKind[] = [
  { name: 'exit_status', words: 'Outcome', values: named(CLASSES), isOfEnd: true },
  {
    name: 'ending',
    words: 'Ending',
    values: Object.entries(ENDINGS).map(([name, { words }]) => [name, words] as const),
    isOfEnd: true,
  },
  { name: 'agent_id', words: 'Agent' },
  {
    name: 'program_kind',
    words: 'Kind',
    values: named([...LANGUAGES, 'command', 'tests', 'install', 'files']),
  },
  { name: 'backend', words: 'Backend' },
  { name: 'session_id', words: 'Session' },
  { name: 'user_id', words: 'User' },
  { name: 'run_id', words: 'Run' },
  { name: 'template_id', words: 'Template' },
  { name: 'trace_id', words: 'Trace' },
  { name: 'code_hash', words: 'Program hash', isOfEnd: true },
  { name: 'outbound_host', words: 'Host reached', isOfEnd: true },
]

/** How far back the list goes, in milliseconds. */
export const SPANS: Readonly<Record<string, { words: string; ms: number }>> = {
  '15m': { words: 'Last 15 minutes', ms: 15 * 60_000 },
  '1h': { words: 'Last hour', ms: 3_600_000 },
  '24h': { words: 'Last 24 hours', ms: 24 * 3_600_000 },
  '7d': { words: 'Last 7 days', ms: 7 * 24 * 3_600_000 },
}

export interface ListQuery {
  status: 'all' | 'live' | 'ended'
  /** The tenant and the filters, as the API takes them. */
  filters: Readonly<Record<string, string>>
  /** A key of SPANS. Null for all that is kept. */
  within: string | null
  /** The page. Null for the newest. */
  cursor: string | null
}

/** What the address asks the list for. */
export function listQuery(): ListQuery {
  const { searchParams } = address.value
  const status = searchParams.get('status')
  const within = searchParams.get('within')
  const filters: Record<string, string> = {}
  for (const name of ['tenant', ...FILTERS.map((filter) => filter.name)]) {
    const value = searchParams.get(name)
    if (value !== null && value !== '') filters[name === 'tenant' ? 'tenant_id' : name] = value.slice(0, 256)
  }
  return {
    status: status === 'live' || status === 'ended' ? status : 'all',
    filters,
    within: within !== null && Object.hasOwn(SPANS, within) ? within : null,
    cursor: searchParams.get('cursor'),
  }
}

/** Whether live executions can match the filters. They cannot if a filter is about the ending. */
export const canBeLive = (filters: ListQuery['filters']): boolean =>
  !FILTERS.some(({ name, isOfEnd }) => isOfEnd === true && filters[name] !== undefined)

/** The API's query parameter `from` for a key of SPANS, or no parameter without one. */
export function fromOf(within: string | null, nowMs: number): Record<string, string> {
  const span = within === null ? undefined : SPANS[within]
  return span === undefined ? {} : { from: new Date(nowMs - span.ms).toISOString() }
}
