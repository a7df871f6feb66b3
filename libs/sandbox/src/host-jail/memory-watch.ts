/**
 * Limits memory without a cgroup: sums the resident memory of a sandbox's processes and kills the largest if
 * the sum exceeds the limit. A program can exceed it for one interval, so `memory` is not declared as
 * enforced.
 */
import { readdir, readFile } from 'node:fs/promises'
import { diskUse } from './disk-use.ts'
import { descendants, signal } from './process-identity.ts'

/** Programs fill memory at 1-4 GB/s: 25-100 MB too much in 25 ms. A look costs 0.2 ms of CPU. */
const INTERVAL_MS = 25
/** Kernel memory of an empty tmpfs file: 752 + 192 bytes in /proc/slabinfo of Linux 6.18. */
const INODE_BYTES = 1024

export interface MemoryWatch {
  readonly kills: number
  /** The largest sum seen, in bytes. */
  readonly peak: number
  stop(): void
}

/**
 * Watches the descendants of `root` (the agent, which does not count) and the sandbox's own tmpfs until
 * `stop()`. Memory from memfd_create or shmget would show in neither of them, so the seccomp filter refuses
 * these calls.
 */
export function watchMemory(root: number, limitBytes: number, disks: readonly string[]): MemoryWatch {
  const seen = { kills: 0, peak: 0 }
  let isStopped = false
  let timer: NodeJS.Timeout | undefined

  async function look(): Promise<void> {
    const pids = descendants(root)
    // A kill does not free files. If they take too much, each look kills another process until none is left.
    const inFiles = fileBytes(disks)
    const left = limitBytes - inFiles
    let sizes = await sizesOf(pids, residentOf)
    // The fast look counts pages shared by forks once per process. Look exactly before a kill.
    if (sumOf(sizes) > left) sizes = await sizesOf(pids, proportionalOf)
    seen.peak = Math.max(seen.peak, sumOf(sizes) + inFiles)
    const largest = sizes.reduce((a, b) => (b.bytes > a.bytes ? b : a), { pid: 0, bytes: 0 })
    if (sumOf(sizes) > left && largest.pid > 0 && !isStopped) {
      seen.kills++
      signal(largest.pid)
    }
  }

  // The next look begins only after this one has ended, so that a slow /proc never causes two at once.
  async function lookAndWait(): Promise<void> {
    await look().catch(() => {})
    if (!isStopped) wait()
  }
  function wait(): void {
    timer = setTimeout(() => void lookAndWait(), INTERVAL_MS)
    timer.unref()
  }
  wait()

  return {
    get kills() {
      return seen.kills
    },
    get peak() {
      return seen.peak
    },
    stop() {
      isStopped = true
      clearTimeout(timer)
    },
  }
}

/**
 * Counts memory for each file too: empty files have no bytes, and bwrap cannot limit the number of files on a
 * tmpfs.
 */
function fileBytes(disks: readonly string[]): number {
  const found = diskUse(disks)
  return found === null ? 0 : found.bytes + found.files * INODE_BYTES
}

interface Size {
  pid: number
  bytes: number
}
const sumOf = (sizes: readonly Size[]): number => sizes.reduce((sum, { bytes }) => sum + bytes, 0)

const sizesOf = (pids: readonly number[], measure: (pid: number) => Promise<number>): Promise<Size[]> =>
  Promise.all(pids.map(async (pid) => ({ pid, bytes: await measure(pid) })))

/** Anonymous and shared-memory pages in RAM, without mapped files. */
async function residentOf(pid: number): Promise<number> {
  const status = await statusOf(pid)
  return (fieldKb(status, 'RssAnon') + fieldKb(status, 'RssShmem')) * 1024
}

/** If the first thread has ended, only other threads show the process's memory. */
async function statusOf(pid: number): Promise<string> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => '')
  if (status.includes('\nRssAnon:')) return status
  const threads = await readdir(`/proc/${pid}/task`).catch(() => [])
  const other = threads.findLast((thread) => thread !== String(pid))
  return other === undefined ? '' : readFile(`/proc/${pid}/task/${other}/status`, 'latin1').catch(() => '')
}

/** Like `residentOf`, but a page that n processes share counts as 1/n for each. This takes longer to read. */
async function proportionalOf(pid: number): Promise<number> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'latin1').catch(() => '')
  return rollup === '' ? residentOf(pid) : (fieldKb(rollup, 'Pss_Anon') + fieldKb(rollup, 'Pss_Shmem')) * 1024
}

function fieldKb(text: string, name: string): number {
  const match = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)
  return Number(match?.[1] ?? 0)
}
