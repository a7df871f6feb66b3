/** How much a workspace and its archive may hold. */
import { BOUNDS } from '@cofferdam/contract'

export interface ArchiveLimits {
  entries: number
  totalBytes: number
  fileBytes: number
  /** Unpacked bytes for each packed one, over the whole archive. */
  ratio: number
}

export const DEFAULT_ARCHIVE_LIMITS: ArchiveLimits = {
  entries: BOUNDS.workspaceFiles,
  totalBytes: BOUNDS.workspaceBytes,
  fileBytes: BOUNDS.workspaceFileBytes,
  // Sources pack to a fifth, logs to a fiftieth; deflate ends at 1,032. `packArchive` stores what packs better than this.
  ratio: 200,
}

/** Folders are no files, and an archive may name each of them. */
export const MAX_FOLDER_ENTRIES = 10_000
