/** A foreseen failure that is told in its own words: exit status 1. */
export class CommandFailure extends Error {
  constructor(message: string, options?: { cause: unknown }) {
    super(message, options)
    this.name = 'CommandFailure'
  }
}
