/** How many files and folders a sandbox may have on a disk of its own. */

/**
 * What a small disk gets: enough for a program that writes many empty files, and a few MiB of kernel memory.
 */
const LEAST = 16_384
/**
 * One per page, the least that a file with something in it takes: who may fill the disk may do so with the
 * smallest files.
 */
const PER_MIB = 256

/**
 * Inodes of a tmpfs of `diskMib`. Each takes 1 KiB of kernel memory (inode and directory entry), which
 * cgroups count.
 */
export const inodesOf = (diskMib: number): number => Math.max(LEAST, diskMib * PER_MIB)
