/** The folder shared by host backends of one user's workers: guest files and sandbox records. */
import { lstat, mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CofferdamError } from '@cofferdam/contract'

/**
 * The default runtime folder is in the temporary folder, because it need not survive a reboot. Its name has
 * the uid, because only that user may own it.
 */
export const defaultRuntimeDir = (): string => join(tmpdir(), `cofferdam-${process.getuid?.() ?? 'user'}`)

/**
 * Creates the folder if needed. Throws `config_invalid` if it is a link, belongs to somebody else or is
 * writable for others, because its content is mounted into sandboxes and decides which processes are killed.
 */
export async function ensureRuntimeDir(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o755 })
  const found = await lstat(path)
  if (!found.isDirectory() || found.uid !== process.getuid?.() || (found.mode & 0o022) !== 0)
    throw new CofferdamError(
      'config_invalid',
      `runtime_dir ${path}: expected a folder of this user that nobody else can write to. Remove it, or name another.`,
    )
}
