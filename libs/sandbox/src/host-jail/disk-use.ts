/** How full a sandbox's own file systems are, seen from outside. */
import { statfsSync } from 'node:fs'

export interface DiskUse {
  bytes: number
  files: number
}

/** Null if we may not look. A program cannot replace a mount point, so it controls no path here. */
export function diskUse(disks: readonly string[]): DiskUse | null {
  if (disks.length === 0) return null
  const sum = { bytes: 0, files: 0 }
  for (const disk of disks) {
    try {
      const { blocks, bfree, bsize, files, ffree } = statfsSync(disk)
      sum.bytes += (blocks - bfree) * bsize
      sum.files += files - ffree
    } catch {
      return null
    }
  }
  return sum
}
