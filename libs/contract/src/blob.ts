/** Where large bytes live (full outputs, artifacts): put, get, delete. The executor writes, the API reads, retention deletes. */

export interface BlobSink {
  /** The chunk is the caller's again when this has resolved. */
  write(chunk: Uint8Array): Promise<void>
  /** Makes the blob visible under its reference; nothing is visible before. */
  commit(): Promise<string>
  /** Forgets what was written. Idempotent; a no-op after commit. */
  abort(): Promise<void>
}

export interface BlobKey {
  tenantId: string
  executionId: string
  attempt: number
  /** `stdout`, `stderr`, or `artifacts/<path>`. */
  name: string
  /** Stored encrypted; `create` throws where the store has no key for it. */
  encrypt: boolean
}

export interface BlobStore {
  create(key: BlobKey): Promise<BlobSink>
  /**
   * The bytes as they were written, decrypted where they are stored encrypted. Null when there is none (any more); throws
   * when they were changed, cut or moved, or their key is gone. `end` is exclusive.
   */
  read(
    ref: string,
    range?: { start: number; end: number },
  ): Promise<{ bytes: Uint8Array; total: number } | null>
  delete(ref: string): Promise<void>
}
