/** The one error of this package: says what failed and what to do about it. */

export type EmbeddedServerErrorCode =
  /** No server program was found on this machine. */
  | 'server_missing'
  /** Another living process uses the data directory. */
  | 'directory_in_use'
  /** The server was found and did not come up. */
  | 'start_failed'

/** Thrown by `startRedis` and `startPostgres`; the message names the remedy. */
export class EmbeddedServerError extends Error {
  readonly code: EmbeddedServerErrorCode

  constructor(code: EmbeddedServerErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'EmbeddedServerError'
    this.code = code
  }
}
