/** What goes wrong at the management plane of the double on purpose. */
export interface ArmFaults {
  /** Answers of `InProgress` of every operation. */
  polls: number
  /** Makers of pools end `Failed`. */
  fail_pool: boolean
  /** DELETE of a pool is answered, and does nothing. */
  deaf_delete: boolean
  /** The next so many calls whose `METHOD path` contains this are dropped after they took effect. */
  drop_after: { contains: string; times: number } | null
  /** The next so many calls are answered with 429. */
  throttle: number
  /** Its Retry-After, seconds; null for none, which Microsoft's client takes as final. */
  retry_after: number | null
  /** Pools report their management endpoint only from the second GET on. */
  late_endpoint: boolean
  /** A role for a principal that is just made: so many answers of PrincipalNotFound. */
  principal_late: number
  /** In place of a URL of this server in LRO headers. */
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
