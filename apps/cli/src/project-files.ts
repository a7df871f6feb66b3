/** The files of a project that are copied into a sandbox: those that git lists, or all but generated ones. */
import { execFile } from 'node:child_process'
import { lstat, readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { BOUNDS, type FileIn } from '@cofferdam/contract'
import { UsageError } from './usage-error.ts'

/** Folders that tools create, and would create again in the sandbox. */
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
/** The longest list of names: 64 MiB are about 600,000 names. */
const LISTING_BYTES = 64 * 1024 * 1024

/** Reads all files of a folder. Throws `UsageError` if it is no folder, or too large for an execution. */
export async function projectFiles(folder: string): Promise<FileIn[]> {
  const names = (await listedByGit(folder)) ?? (await listedByWalk(folder))
  const files: FileIn[] = []
  let total = 0
  for (const name of names.toSorted()) {
    const file = path.join(folder, name)
    const stat = await lstat(file).catch(() => null)
    // Links are left out, because they can point anywhere. A listed file may have been deleted.
    if (stat === null || !stat.isFile()) continue
    total += stat.size
    if (files.length === BOUNDS.fileCount || total > BOUNDS.filesTotalBytes || stat.size > BOUNDS.fileBytes)
      throw new UsageError(
        `${folder} has more than one execution may contain (${BOUNDS.fileCount} files, ` +
          `${BOUNDS.filesTotalBytes} bytes, ` +
          `${BOUNDS.fileBytes} bytes per file). ${name} is the first file beyond the limit. ` +
          'Name a smaller folder, or list what is not needed in .gitignore.',
      )
    const bytes = await readFile(file)
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
    // Stops early, because these names are enough to know that the folder is too large.
    if (found.length > 10 * BOUNDS.fileCount) return found
  }
  return found
}
