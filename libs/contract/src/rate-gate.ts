/** A rate that a whole fleet shares, such as the calls of one operation that a vendor takes from an account in a second. */
export interface RateGate {
  /**
   * Resolves when one more call fits into `perSecond` of `bucket`; a fifth of that may come at once, so that no second sees
   * more than 1.2 times as many (25 keeps to a vendor's 30). Throws `backend_unavailable` (`details.full`) when its turn is further off than `waitMs`, and the reason of `signal`.
   */
  take(bucket: string, perSecond: number, options: { waitMs: number; signal: AbortSignal }): Promise<void>
}
