/** What is told of a log record to an operator. */

/** One message: it is the stable name. */
export interface LogFacts {
  /** `request` is logged at `info` for refusals and `debug` for the rest. */
  level: 'debug' | 'info' | 'warn' | 'error' | 'info or debug'
  from: 'api' | 'worker' | 'api and worker'
  /** What it means, and what to do if anything. */
  about: string
}
