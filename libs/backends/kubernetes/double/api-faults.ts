/** Faults of the double's API server that a test injects. Each number is a count. */
export interface ApiFaults {
  /** Creates whose answer is dropped after the object was created. */
  drop_creates: number
  /** Later pages of a list that are answered with 410. */
  gone_pages: number
  /** Creates that are dropped and take effect when `carryOut` is called. */
  late_creates: number
  /** Creates that are answered with 429. */
  throttle_creates: number
  /** Deletes that are answered with 503 and do nothing. */
  busy_deletes: number
  /** Deletes whose answer is dropped after they took effect. */
  drop_deletes: number
  /** Creates, and patches, answered with 401, as for a token that was just replaced. */
  unauthorized_creates: number
  unauthorized_patches: number
  /** Answers whose objects have null for absent fields. */
  null_answers: number
}

/** No faults. */
export const noApiFaults = (): ApiFaults => ({
  gone_pages: 0,
  late_creates: 0,
  drop_creates: 0,
  throttle_creates: 0,
  busy_deletes: 0,
  drop_deletes: 0,
  unauthorized_creates: 0,
  unauthorized_patches: 0,
  null_answers: 0,
})
