/**
 * Where the bytes of blobs lie: a directory (local-place.ts) or a bucket (s3-place.ts). A place stores bytes
 * as they are. blob-store.ts encrypts them, checks them and bounds their size.
 */
import type { BlobPath } from './blob-ref.ts'

export interface PlaceWriter {
  /** The caller may reuse the bytes' memory once this resolves. */
  append(bytes: Uint8Array): Promise<void>
  /** Makes all appended bytes readable at once. They survive a power cut. */
  finish(): Promise<void>
  /** Discards what was appended. Called at most once, and never after a successful `finish`. */
  discard(): Promise<void>
}

export interface PlaceReader extends AsyncDisposable {
  /** Stored bytes. */
  size: number
  /** Exactly the bytes from `start` to `end`, which are within `size`. */
  read(start: number, end: number): Promise<Uint8Array>
}

export interface BlobPlace extends Disposable {
  /**
   * A bucket is one for the whole fleet, and others may write to it. What is not encrypted is then stored
   * with hashes, and checked against the reference when it is read.
   */
  readonly isBucket: boolean
  create(blob: BlobPath): Promise<PlaceWriter>
  /** Null when nothing is stored there. */
  open(blob: BlobPath): Promise<PlaceReader | null>
  /** Does nothing when nothing is stored there. */
  delete(blob: BlobPath): Promise<void>
  /** The folders of tenants. */
  tenants(): Promise<string[]>
  /** The days (`YYYYMMDD`) of a tenant's folder. */
  days(tenant: string): Promise<string[]>
  /**
   * Deletes the executions of a day whose ID `gone` returns. Asks for a thousand at a time. Returns their
   * number.
   */
  sweepDay(tenant: string, day: string, gone: AskGone): Promise<number>
  /**
   * Removes what writers that died before `beforeMs` left. Does nothing for a place whose `sweepDay` removes
   * it.
   */
  sweepUnfinished(beforeMs: number): Promise<void>
  /** Throws `config_invalid` or `store_unavailable`, with what to do, if blobs cannot be written and read. */
  check(): Promise<void>
}

/** Which of some executions have no rows any more. */
export type AskGone = (executionIds: string[]) => Promise<Set<string>>

/** Other folders are not ours, and stay. */
export const DAY_FOLDER = /^\d{8}$/
export const EXECUTION_FOLDER = /^exe_[0-9a-f]{32}$/
