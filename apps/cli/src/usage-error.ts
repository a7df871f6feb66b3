/** The command line is invalid. The message is shown on stderr, and the exit status is 2. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'UsageError'
  }
}
