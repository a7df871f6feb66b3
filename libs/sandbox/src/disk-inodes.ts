/** How many files and folders a sandbox may have on a disk of its own. */

/** Enough for a program that writes many empty files to a small disk; costs 16 MiB of kernel memory. */
const LEAST = 16_384
/**
 * One per page, which is the least that a file with content takes: the disk can be filled with the smallest
 * files.
 */
const PER_MIB = 256

/**
 * Inodes of a tmpfs of `diskMib`. Each takes 1 KiB of kernel memory (inode and directory entry), which
 * cgroups count.
 */
export const inodesOf = (diskMib: number): number => Math.max(LEAST, diskMib * PER_MIB)
