/** A foreseen failure that is told in its own words: exit status 1. */
export class CommandFailure extends Error {
  /** What `--json` says beside the words: `unreachable` when no API answers, else `failed`. */
  readonly code: 'unreachable' | 'failed'

  constructor(message: string, options: { cause?: unknown; code?: CommandFailure['code'] } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'CommandFailure'
    this.code = options.code ?? 'failed'
  }
}
