/** What the double does wrong on purpose; counts are used up as they happen. */

export interface Faults {
  /** Answers so many creates with 429. */
  throttle_creates: number
  /** Answers so many connects with 429. */
  throttle_connects: number
  /** Answers so many kills with 429. */
  throttle_kills: number
  /** Never answers so many kills, which do nothing. */
  hold_kills: number
  /** Answers so many kills with 404, which do nothing, as a service that does not know yet what it made. */
  unknown_kills: number
  /** Answers so many kills with 200 and a page, as a gateway that wants a login; they do nothing. */
  page_kills: number
  /** Answers so many calls to sandboxes with 429, as a proxy with too many connections does. */
  throttle_sandboxes: number
  /** Seconds in `Retry-After`; null for none. */
  retry_after: number | null
  /** Drops the connection of so many creates after the sandbox was made. */
  drop_creates: number
  /** Drops the connection of so many creates before the sandbox is made, which it is all the same. */
  lose_creates: number
  /** Answers so many creates with a gateway's 502, though their sandboxes are made. */
  break_creates: number
  /** Never answers so many creates, though their sandboxes are made. */
  hold_creates: number
  /** Answers so many changes of a sandbox's time with 409, as for one that is going. */
  conflict_timeouts: number
  /** Answers so many inputs of processes with 500, though they were taken. */
  fail_inputs: number
  /** Answers so many inputs of processes with 200 and a page, which were not taken. */
  page_inputs: number
  /** Answers so many looks at a code interpreter's health with 503, as one that is not opened yet. */
  late_interpreters: number
  /** Ends so many streams of processes with an error before their first event: `resource_exhausted`. */
  refuse_streams: number
  /** Cuts the next stream of a process or of the interpreter after so many bytes; null for not at all. */
  cut_stream_after: number | null
  /** Streams come in pieces of so many bytes until this is 0 again. */
  piece_bytes: number
  /** Milliseconds before every answer of the control API. */
  latency_ms: number
  /** Lists all sandboxes whatever is asked for, until this is false again. */
  ignore_filters: boolean
  /** Lists first what no sandbox of the service looks like, until this is false again. */
  strange_entries: boolean
  /** A refused key stands in the refusal, until this is false again. */
  echo_key: boolean
}
export const NO_FAULTS: Faults = {
  throttle_creates: 0,
  throttle_connects: 0,
  throttle_kills: 0,
  hold_kills: 0,
  unknown_kills: 0,
  page_kills: 0,
  throttle_sandboxes: 0,
  retry_after: null,
  drop_creates: 0,
  lose_creates: 0,
  break_creates: 0,
  hold_creates: 0,
  conflict_timeouts: 0,
  fail_inputs: 0,
  page_inputs: 0,
  late_interpreters: 0,
  refuse_streams: 0,
  cut_stream_after: null,
  piece_bytes: 0,
  latency_ms: 0,
  ignore_filters: false,
  strange_entries: false,
  echo_key: false,
}

/** What is listed with `strange_entries`: ids and values as E2B has none. */
export const STRANGE_ENTRIES = [
  { sandboxID: 'i_strange.id', metadata: {} },
  { sandboxID: 'iaaa', metadata: { n: 5 } },
  null,
]

type Counted = { [Name in keyof Faults]: Faults[Name] extends number ? Name : never }[keyof Faults]

/** True when it is to happen now, which is then one time less. */
export function happens(
  faults: Faults,
  name: Exclude<Counted, 'retry_after' | 'cut_stream_after' | 'piece_bytes' | 'latency_ms'>,
): boolean {
  if (faults[name] <= 0) return false
  faults[name] -= 1
  return true
}
