/** The store of large bytes (outputs, artifacts). The executor writes, the API reads, retention deletes. */

export interface BlobSink {
  /** The caller may reuse the chunk's memory once this resolves. */
  write(chunk: Uint8Array): Promise<void>
  /** Makes the blob readable and returns its reference. */
  commit(): Promise<string>
  /** Discards what was written. Idempotent. Does nothing after `commit`. */
  abort(): Promise<void>
}

export interface BlobKey {
  tenantId: string
  executionId: string
  attempt: number
  /** `stdout`, `stderr`, or `artifacts/<path>`. */
  name: string
  /** Store encrypted. `create` throws if the store has no key. */
  encrypt: boolean
}

export interface BlobStore {
  create(key: BlobKey): Promise<BlobSink>
  /**
   * The bytes as they were written, decrypted if necessary. Null when the blob does not exist. Throws when
   * encrypted bytes were altered, truncated or moved, or when their key is missing. `end` is exclusive.
   */
  read(
    ref: string,
    range?: { start: number; end: number },
  ): Promise<{ bytes: Uint8Array; total: number } | null>
  delete(ref: string): Promise<void>
}
