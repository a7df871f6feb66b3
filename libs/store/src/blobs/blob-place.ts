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
   * True for a bucket. The whole fleet shares it, and others may write to it. So blobs that are not encrypted
   * are stored with hashes, and checked against their reference when they are read.
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
   * Deletes the blobs of a day's executions whose IDs `gone` returns. Asks `gone` about at most a thousand at
   * a time. Returns the number of these executions.
   */
  sweepDay(tenant: string, day: string, gone: AskGone): Promise<number>
  /**
   * Removes unfinished blobs that writers began before `beforeMs`. Does nothing if `sweepDay` of this place
   * removes them.
   */
  sweepUnfinished(beforeMs: number): Promise<void>
  /** Throws `config_invalid` or `store_unavailable`, with what to do, if blobs cannot be written and read. */
  check(): Promise<void>
}

/**
 * Returns those of the given execution IDs that fit the name of the parameter: `gone`, `known` or `ended`.
 */
export type AskGone = (executionIds: string[]) => Promise<Set<string>>

/** Other folders are not ours, and stay. */
export const DAY_FOLDER = /^\d{8}$/
export const EXECUTION_FOLDER = /^exe_[0-9a-f]{32}$/
