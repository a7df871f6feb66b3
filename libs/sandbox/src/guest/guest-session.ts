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
  /** Port of the programs' proxy on loopback. Default 3128. Agents that share a loopback need other ports. */
  proxyPort?: number
  /** Of an agent that is resumed from disk: its first report (R), which it does not send a second time. */
  resumed?: GuestReady
  /** Called once when the session is over, with the reason: destroy the sandbox then. */
  onClosed?(reason: CofferdamError): void
}

export interface GuestSession {
  /** Resolves when an interpreter waits. Rejects with `sandbox_open_failed` or the close reason. */
  ready(signal?: AbortSignal): Promise<GuestReady>
  /** Lets an agent that was started with `--hold`, or by `sharedStart` with its options, continue. */
  release(options?: readonly string[]): void
  /** Queues files for the next run, within the contract's limits; read, list and remove send them first. */
  write(files: readonly ProgramFile[]): Promise<void>
  /**
   * Runs one program; rejects with `sandbox_lost`, `protocol_violation`, or the reason of `io.signal`. With
   * `keepInterpreter` a script runs in the interpreter that the session kept for its language, if that one
   * still lives. With `keepProcesses` the end of the program kills no other process. An agent that is too old
   * for an option makes the call reject with `capability_missing`.
   */
  run(
    program: Program,
    io: RunIo,
    env: Record<string, string>,
    options?: { keepInterpreter?: boolean; keepProcesses?: boolean },
  ): Promise<Exit>
  /** True when the last run left an interpreter that keeps its state for the next one. */
  interpreterAlive(): boolean
  /**
   * Ends an execution in a cell: kills what runs, wipes what it wrote except `keep`, and forgets queued
   * files. Resolves when the agent has proven that nothing else is left. The value is the number of the
   * agent's own processes that wait for the next program (at most a fork server and an interpreter). Rejects
   * with `sandbox_lost` if the agent has no proof. Then destroy the cell. With `processes`, `clean` only
   * forgets queued files.
   */
  clean(keep: Kept, signal?: AbortSignal): Promise<number>
  /** SIGINT to the program, SIGTERM after half of `graceMs`. Never throws. */
  interrupt(graceMs: number): void
  read(path: string, maxBytes: number): Promise<Uint8Array>
  list(globs: readonly string[], maxEntries: number): Promise<Listing>
  /** Symbolic links that match; none from an older agent, which cannot list them. */
  links(globs: readonly string[], maxEntries: number): Promise<Listing>
  remove(path: string): Promise<void>
  /** Copies files, even during a run; one call at a time. Old agents: rejects with `capability_missing`. */
  snapshot(request: BackupRequest): Promise<ProgramFile[]>
  usage(): Promise<Usage>
  /** Ends the session: pending calls reject with `sandbox_lost`. Idempotent; kills nothing by itself. */
  close(reason?: CofferdamError): void
  readonly closed: boolean
  /** True if open without a running program: a healthy agent then ends when the session closes. */
  readonly atRest: boolean
}
