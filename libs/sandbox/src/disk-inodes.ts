/** How many files and folders a sandbox may have on its own disk. */

/** Minimum, for programs that write many empty files to a small disk; costs 16 MiB of kernel memory. */
const LEAST = 16_384
/**
 * One per page of 4 KiB. A file with content takes at least a page, so even the smallest files can fill the
 * disk.
 */
const PER_MIB = 256

/** Inodes of a tmpfs of `diskMib`. Each takes 1 KiB of kernel memory, which cgroups count. */
export const inodesOf = (diskMib: number): number => Math.max(LEAST, diskMib * PER_MIB)
