/** What both launchers take and hand back. */

export interface StartOptions {
  /** Made when absent (mode 700); holds the server's files. One server of a kind per directory. */
  dataDir: string
  /** True: survives a crash (fsync, append-only file). False: for tests, fast and forgetful. */
  durable: boolean
  /** Gets each line that the server prints. Default: dropped (the last lines still stand in a start error). */
  log?: (line: string) => void
}

export interface RunningServer {
  /** Where it listens, for `REDIS_URL` or `DATABASE_URL`. */
  readonly url: string
  /** How it was found, in words, e.g. `redis-server on PATH`. */
  readonly how: string
  /** Process id of the server (of the docker client, when it runs in a container). */
  readonly pid: number
  /** Resolves with the reason when the server ended, asked or not. Never rejects. */
  readonly exited: Promise<string>
  /** Stops it, waits for its end and removes sockets, locks and temporary directories. Idempotent. */
  stop(): Promise<void>
}
