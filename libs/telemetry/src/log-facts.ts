/** Documentation of log messages for operators. */

/** What operators should know about one log message. The message itself is its stable name. */
export interface LogFacts {
  /**
   * `info or debug` is for the message `request`: it is logged at `info` for refusals and at `debug`
   * otherwise.
   */
  level: 'debug' | 'info' | 'warn' | 'error' | 'info or debug'
  from: 'api' | 'worker' | 'api and worker' | 'dispatcher'
  /** What the message means, and what an operator should do. */
  about: string
}
