/** Options and result of both launchers. */

export interface StartOptions {
  /** Folder of the server's files, created if absent (mode 700). Only one server can use it at a time. */
  dataDir: string
  /** True: data survives a crash (fsync, append-only file). False: faster, for tests. */
  durable: boolean
  /** Called with each line that the server prints. A start error always contains the last lines. */
  log?: (line: string) => void
}

export interface RunningServer {
  /** Address for `REDIS_URL` or `DATABASE_URL`. */
  readonly url: string
  /** How the server was found, as text, such as `redis-server on PATH`. */
  readonly how: string
  /** Process ID of the server, or of the docker client for a container. */
  readonly pid: number
  /** Resolves with the reason when the server has ended for any cause. Never rejects. */
  readonly exited: Promise<string>
  /** Stops it, waits for its end and removes sockets, locks and temporary directories. Idempotent. */
  stop(): Promise<void>
}
