/** What the API server of the double does wrong when told, each so many times. */
export interface ApiFaults {
  /** Drops so many answers to a create, after the object was made. */
  drop_creates: number
  /** Answers so many later pages of a list with 410. */
  gone_pages: number
  /** Drops so many creates, which are carried out when `carryOut` is called. */
  late_creates: number
  /** Answers so many creates with 429. */
  throttle_creates: number
  /** Answers so many deletes with 503, and does nothing. */
  busy_deletes: number
  /** Drops so many answers to a delete, after it was done. */
  drop_deletes: number
  /** Answers so many creates and so many patches with 401, as to a token that was replaced just now. */
  unauthorized_creates: number
  unauthorized_patches: number
  /** So many answers about objects say null for what is absent. */
  null_answers: number
}

/** None of it. */
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
