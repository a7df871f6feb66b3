/** Faults that a test injects. Each fault with a count happens that many times. */

export interface Faults {
  /** Number of creates answered with 429. */
  throttle_creates: number
  /** Number of connects answered with 429. */
  throttle_connects: number
  /** Number of kills answered with 429. */
  throttle_kills: number
  /** Number of kills that are never answered and do nothing. */
  hold_kills: number
  /** Number of kills answered with 404 that do nothing, as if the service did not yet know the sandbox. */
  unknown_kills: number
  /** Number of kills answered with 200 and a gateway's login page; they do nothing. */
  page_kills: number
  /** Number of calls to sandboxes answered with 429, as by a proxy with too many connections. */
  throttle_sandboxes: number
  /** Seconds in `Retry-After`; null for no header. */
  retry_after: number | null
  /** Number of creates whose connection drops after the sandbox was created. */
  drop_creates: number
  /** Number of creates whose connection drops before the sandbox is created. */
  lose_creates: number
  /** Number of creates answered with a gateway's 502 although the sandbox is created. */
  break_creates: number
  /** Number of creates that are never answered although the sandbox is created. */
  hold_creates: number
  /** Number of changes of a lifetime answered with 409, as for a sandbox that is ending. */
  conflict_timeouts: number
  /** Number of inputs to processes answered with 500 although they arrived. */
  fail_inputs: number
  /** Number of inputs to processes answered with 200 and a page; they did not arrive. */
  page_inputs: number
  /** Number of health checks of a code interpreter answered with 503, as if it were starting. */
  late_interpreters: number
  /** Number of process streams that end with `resource_exhausted` before their first event. */
  refuse_streams: number
  /**
   * Cuts the next stream of a process, a watch or the interpreter after this many bytes; null for not at all.
   */
  cut_stream_after: number | null
  /** Streams arrive in pieces of this size until it is 0 again. */
  piece_bytes: number
  /** Delay of every answer of the control API in milliseconds. */
  latency_ms: number
  /** Lists ignore their filters until this is false again. */
  ignore_filters: boolean
  /** Lists begin with entries that no real sandbox has, until this is false again. */
  strange_entries: boolean
  /** The refusal of a key repeats the key, until this is false again. */
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

/** Entries for `strange_entries`, with IDs and values that E2B never has. */
export const STRANGE_ENTRIES = [
  { sandboxID: 'i_strange.id', metadata: {} },
  { sandboxID: 'iaaa', metadata: { n: 5 } },
  null,
]

type Counted = { [Name in keyof Faults]: Faults[Name] extends number ? Name : never }[keyof Faults]

/** Uses up one count and returns true if the fault happens now. */
export function happens(
  faults: Faults,
  name: Exclude<Counted, 'retry_after' | 'cut_stream_after' | 'piece_bytes' | 'latency_ms'>,
): boolean {
  if (faults[name] <= 0) return false
  faults[name] -= 1
  return true
}
