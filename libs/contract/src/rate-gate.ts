/** A rate limit that the whole fleet shares, such as a vendor's calls per second and account. */
export interface RateGate {
  /**
   * Resolves when one more call fits into `perSecond` of `bucket`. A burst may have a fifth of `perSecond`,
   * so no second has more than 1.2 times `perSecond` calls. With 25, that is at most 30. Throws
   * `backend_unavailable` with `details.full` when the wait would exceed `waitMs`, or the reason of `signal`.
   */
  take(bucket: string, perSecond: number, options: { waitMs: number; signal: AbortSignal }): Promise<void>
}
