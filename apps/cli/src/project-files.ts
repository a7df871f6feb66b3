/** The files of a project folder that go into a sandbox: what git would show, else everything but what tools put there. */
import { execFile } from 'node:child_process'
import { lstat, readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { BOUNDS, type FileIn } from '@cofferdam/contract'
import { UsageError } from './usage-error.ts'

/** Made by tools, and made again inside. */
const LEFT_OUT = new Set([
  '.git',
  '.hg',
  '.venv',
  'venv',
  'node_modules',
  '__pycache__',
  '.pytest_cache',
  '.tox',
  'target',
])
/** Names of a repository: 64 MiB are some 600,000 of them. */
const LISTING_BYTES = 64 * 1024 * 1024

/** Reads them all. Throws `UsageError` when the folder is none, or holds more than one execution may bring. */
export async function projectFiles(folder: string): Promise<FileIn[]> {
  const names = (await listedByGit(folder)) ?? (await listedByWalk(folder))
  const files: FileIn[] = []
  let total = 0
  for (const name of names.toSorted()) {
    const place = path.join(folder, name)
    const stat = await lstat(place).catch(() => null)
    // Links are left out: what they name may lie anywhere. A listed file may have been deleted.
    if (stat === null || !stat.isFile()) continue
    total += stat.size
    if (files.length === BOUNDS.fileCount || total > BOUNDS.filesTotalBytes || stat.size > BOUNDS.fileBytes)
      throw new UsageError(
        `${folder} holds more than one execution may bring (${BOUNDS.fileCount} files, ${BOUNDS.filesTotalBytes} bytes, ` +
          `${BOUNDS.fileBytes} for one); ${name} is the first beyond it. Name a smaller folder, or ignore what is not needed in .gitignore.`,
      )
    const bytes = await readFile(place)
    files.push({
      path: name.split(path.sep).join('/'),
      content_base64: bytes.toString('base64'),
      ...((stat.mode & 0o100) === 0 ? {} : { executable: true }),
    })
  }
  return files
}

async function listedByGit(folder: string): Promise<string[] | null> {
  const args = ['-C', folder, 'ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const listed = await promisify(execFile)('git', args, { maxBuffer: LISTING_BYTES }).catch(() => null)
  return listed === null ? null : [...new Set(listed.stdout.split('\0'))].filter((name) => name !== '')
}

async function listedByWalk(folder: string): Promise<string[]> {
  const found: string[] = []
  const waiting = ['']
  for (let below = waiting.pop(); below !== undefined; below = waiting.pop()) {
    const entries = await readdir(path.join(folder, below), { withFileTypes: true }).catch(() => {
      throw new UsageError(`${path.join(folder, below)} cannot be read as a folder.`)
    })
    for (const entry of entries) {
      const name = path.join(below, entry.name)
      if (entry.isDirectory() && !LEFT_OUT.has(entry.name)) waiting.push(name)
      else if (entry.isFile()) found.push(name)
    }
    // One more than fits is enough to say so.
    if (found.length > 10 * BOUNDS.fileCount) return found
  }
  return found
}
