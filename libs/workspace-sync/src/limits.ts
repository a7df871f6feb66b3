/** Limits of workspaces and their archives. */
import { BOUNDS } from '@cofferdam/contract'

export interface ArchiveLimits {
  entries: number
  totalBytes: number
  fileBytes: number
  /** Unpacked bytes per packed byte, over the whole archive. */
  ratio: number
}

export const DEFAULT_ARCHIVE_LIMITS: ArchiveLimits = {
  entries: BOUNDS.workspaceFiles,
  totalBytes: BOUNDS.workspaceBytes,
  fileBytes: BOUNDS.workspaceFileBytes,
  // Sources have a ratio of 5, logs of 50, and deflate at most 1,032. `packArchive` stays below this.
  ratio: 200,
}

/** An archive may also have an entry for each folder. */
export const MAX_FOLDER_ENTRIES = 10_000
