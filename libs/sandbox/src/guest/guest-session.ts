/** What a backend can do with a guest agent. */
import type { Readable, Writable } from 'node:stream'
import type { CofferdamError, Listing, Exit, Program, ProgramFile, RunIo, Usage } from '@cofferdam/contract'
import type { Kept } from './collect.ts'
import type { GuestReady } from './evidence.ts'
import type { BackupRequest } from './side-requests.ts'

export interface GuestSessionOptions {
  /** What the agent writes (its stdout). */
  readable: Readable
  /** What the agent reads (its stdin). */
  writable: Writable
  /**
   * Where programs find the proxy on their loopback (3128); another one where several agents share a
   * loopback.
   */
  proxyPort?: number
  /** Called once when the session is over, with the reason: destroy the sandbox then. */
  onClosed?(reason: CofferdamError): void
}

export interface GuestSession {
  /**
   * Resolves when an initialized interpreter waits. Rejects with `sandbox_open_failed` or the reason of the
   * close.
   */
  ready(signal?: AbortSignal): Promise<GuestReady>
  /** Lets an agent that was started with `--hold`, or by `sharedStart` with its options, continue. */
  release(options?: readonly string[]): void
  /**
   * Queues files for the next run (bounded by the contract's file bounds); read, list and remove send them
   * first.
   */
  write(files: readonly ProgramFile[]): Promise<void>
  /**
   * Runs one program; rejects with `sandbox_lost`, `protocol_violation`, or the reason of `io.signal`. With
   * `keepInterpreter` a script runs in the interpreter of the session's last such run of its language, if
   * that lives.
   */
  run(
    program: Program,
    io: RunIo,
    env: Record<string, string>,
    options?: { keepInterpreter?: boolean },
  ): Promise<Exit>
  /** True when the last run left an interpreter that keeps its state for the next one. */
  interpreterAlive(): boolean
  /**
   * Ends an execution in a cell: kills what runs, wipes what it wrote except `keep`, and forgets queued
   * files. Resolves when the agent has proven that nothing else is left, to the number of its own processes
   * that wait for the next program (at most a fork server and an interpreter). Rejects with `sandbox_lost`
   * when it cannot: then destroy the cell.
   */
  clean(keep: Kept, signal?: AbortSignal): Promise<number>
  /** SIGINT to the program, SIGTERM after half of `graceMs`. Never throws. */
  interrupt(graceMs: number): void
  read(path: string, maxBytes: number): Promise<Uint8Array>
  list(globs: readonly string[], maxEntries: number): Promise<Listing>
  /** Symbolic links that match; none from an older agent, which cannot list them. */
  links(globs: readonly string[], maxEntries: number): Promise<Listing>
  remove(path: string): Promise<void>
  /**
   * Copies of files, also while a program runs; one at a time. Rejects with `capability_missing` for an older
   * agent.
   */
  snapshot(request: BackupRequest): Promise<ProgramFile[]>
  usage(): Promise<Usage>
  /** Ends the session: pending calls reject with `sandbox_lost`. Idempotent; kills nothing by itself. */
  close(reason?: CofferdamError): void
  readonly closed: boolean
  /**
   * True while it is open and no program runs: a healthy agent then ends by itself when the session is
   * closed.
   */
  readonly atRest: boolean
}
