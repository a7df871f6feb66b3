/** The folder that host backends share between workers of one user: guest files and sandbox records. */
import { lstat, mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CofferdamError } from '@cofferdam/contract'

/**
 * Below the temporary folder, so that a reboot may forget it; named by user, because only that user may own
 * it.
 */
export const defaultRuntimeDir = (): string => join(tmpdir(), `cofferdam-${process.getuid?.() ?? 'user'}`)

/**
 * Makes the folder when it is not there. Throws `config_invalid` when it is a link, belongs to somebody else
 * or others can write to it: what lies in it is mounted into sandboxes and decides which processes are
 * killed.
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
