/** The error type of this package. */

export type EmbeddedServerErrorCode =
  /** No server program was found on this machine. */
  | 'server_missing'
  /** Another living process uses the data directory. */
  | 'directory_in_use'
  /** The server was found but did not start. */
  | 'start_failed'

/** Thrown by `startRedis` and `startPostgres`. The message says what to do. */
export class EmbeddedServerError extends Error {
  readonly code: EmbeddedServerErrorCode

  constructor(code: EmbeddedServerErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'EmbeddedServerError'
    this.code = code
  }
}
