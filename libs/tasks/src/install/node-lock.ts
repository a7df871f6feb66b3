/**
 * Reads lock files of yarn and pnpm, and chooses a version of the package manager that can read the file.
 * Both managers fetch tarballs from the addresses in it. So during the install, these addresses point to the
 * package proxy. Afterwards, the caller's own file is restored.
 */
import type { ProgramFile, Sandbox } from '@cofferdam/contract'

/** Lock files of the largest public monorepos have 2 to 3 MB. */
const MAX_LOCK_BYTES = 8 * 1024 * 1024

export interface NodeLock {
  /** Empty when the lock file cannot be read. The package manager then reports what is wrong with it. */
  text: string
  /** The file to use during the install. Null when the project's own file needs no change. */
  redirected: RedirectedLock | null
}

export interface RedirectedLock {
  /** Write it before the install. */
  file: ProgramFile
  /** Restores the caller's own file, unless the install changed it. Never rejects. */
  restore(sandbox: Pick<Sandbox, 'read' | 'write'>): Promise<void>
}

/** Reads the lock file at `path`. `redirect` points its addresses to the package proxy. */
export async function readNodeLock(
  sandbox: Pick<Sandbox, 'read'>,
  path: string,
  redirect: (text: string) => string,
): Promise<NodeLock> {
  const own = await sandbox.read(path, MAX_LOCK_BYTES).catch(() => null)
  if (own === null) return { text: '', redirected: null }
  const text = Buffer.from(own).toString('utf8')
  const moved = redirect(text)
  return { text, redirected: moved === text ? null : redirectedLock(path, own, Buffer.from(moved)) }
}

function redirectedLock(path: string, own: Uint8Array, moved: Buffer): RedirectedLock {
  return {
    file: { path, bytes: moved },
    async restore(sandbox) {
      try {
        const left = await sandbox.read(path, moved.length)
        if (!moved.equals(left)) return
        await sandbox.write([{ path, bytes: own }])
        // A sandbox may delay a write until the next request. This read is that request.
        await sandbox.read(path, own.length)
      } catch {
        // The sandbox or the file is gone, so there is nothing to restore.
      }
    },
  }
}

/** Whether yarn 2 or later wrote the lock file. yarn 1 would treat such a file as out of date. */
export const isBerry = (text: string): boolean => /^__metadata:/m.test(text)

/** The yarn to fetch for a lock file. yarn 2 and later read files of older versions, not of newer ones. */
export function yarnFor(text: string): string {
  const written = /^__metadata:\s+version: (\d+)/m.exec(text)?.[1]
  if (written === undefined) return isBerry(text) ? '@yarnpkg/cli-dist@4' : 'yarn@1'
  return Number(written) <= 6 ? '@yarnpkg/cli-dist@3' : '@yarnpkg/cli-dist@4'
}

/**
 * The pnpm to fetch for a lock file. pnpm 10 reads only version 9.0 of the format. pnpm 9 also reads version
 * 6.0, which pnpm 8 writes.
 */
export const pnpmFor = (text: string): string =>
  /^lockfileVersion: '?6\./m.test(text) ? 'pnpm@9' : 'pnpm@10'
