/** Documentation of log messages for operators. */

/** The message itself is the stable name. */
export interface LogFacts {
  /**
   * `info or debug` is for the message `request`: it is logged at `info` for refusals and at `debug`
   * otherwise.
   */
  level: 'debug' | 'info' | 'warn' | 'error' | 'info or debug'
  from: 'api' | 'worker' | 'api and worker' | 'dispatcher'
  /** What it means, and what to do. */
  about: string
}
