/** The part of a pino logger that is used here. */
export interface QueueLogger {
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}
