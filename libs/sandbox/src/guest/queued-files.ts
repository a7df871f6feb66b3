/** Files that wait for the next job, within the bounds of one execution. */
import { BOUNDS, CofferdamError, type ProgramFile } from '@cofferdam/contract'

export interface QueuedFiles {
  /** Throws `payload_too_large` beyond the bounds, and then holds nothing any more. */
  add(files: readonly ProgramFile[]): void
  /** All of them; none is left. */
  take(): ProgramFile[]
}

export function createQueuedFiles(): QueuedFiles {
  let queued: ProgramFile[] = []
  let bytes = 0

  function take(): ProgramFile[] {
    const files = queued
    queued = []
    bytes = 0
    return files
  }

  return {
    take,
    add(files) {
      for (const file of files) bytes += file.bytes.length
      queued.push(...files)
      if (bytes <= BOUNDS.filesTotalBytes && queued.length <= BOUNDS.fileCount) return
      take()
      throw new CofferdamError('payload_too_large', 'the files exceed the bounds of one execution')
    },
  }
}
