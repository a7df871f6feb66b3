/** A rate that a whole fleet shares, such as the calls of one operation that a vendor takes from an account in a second. */
export interface RateGate {
  /**
   * Resolves when one more call fits into `perSecond` of `bucket`; a second's worth may come at once. Throws
   * `backend_unavailable` when its turn is further off than `waitMs`, and the reason of `signal`.
   */
  take(bucket: string, perSecond: number, options: { waitMs: number; signal: AbortSignal }): Promise<void>
}
