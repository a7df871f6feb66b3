/** Faults that a test injects at the double's management plane. */
export interface ArmFaults {
  /** How many times each operation answers `InProgress` before it ends. */
  polls: number
  /** Whether creations of pools end as `Failed`. */
  fail_pool: boolean
  /** Whether DELETE of a pool is accepted but does nothing. */
  deaf_delete: boolean
  /** Drops the answers to `times` calls whose `METHOD path` contains the text. The calls take effect. */
  drop_after: { contains: string; times: number } | null
  /** Number of calls answered with 429. */
  throttle: number
  /** Retry-After of these 429 answers in seconds. Null for none: then Microsoft's client does not retry. */
  retry_after: number | null
  /** Whether the next GET of a pool leaves out its management endpoint. */
  late_endpoint: boolean
  /** Number of role assignments refused with PrincipalNotFound, as for a principal that was just created. */
  principal_late: number
  /** Origin of the polling URLs instead of this server's own. */
  foreign_poll: string | null
}

export const NO_ARM_FAULTS: ArmFaults = {
  polls: 1,
  fail_pool: false,
  deaf_delete: false,
  drop_after: null,
  throttle: 0,
  retry_after: null,
  late_endpoint: false,
  principal_late: 0,
  foreign_poll: null,
}
