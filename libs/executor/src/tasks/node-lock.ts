/**
 * Lock files of yarn and pnpm: which line of the package manager reads this one, and its text for an install here. Both go to
 * the addresses that stand in it, so tarballs of registries are looked for at the package proxy while the install runs;
 * the file is given back as it was.
 */
import type { ProgramFile, Sandbox } from '@cofferdam/contract'

/** Lock files of the largest public monorepos have 2 to 3 MB. */
const MAX_LOCK_BYTES = 8 * 1024 * 1024

export interface NodeLock {
  /** Empty when it cannot be read: the package manager says what is wrong with it. */
  text: string
  /** For while the install runs; null when it may stay as it is. */
  redirected: RedirectedLock | null
}

export interface RedirectedLock {
  /** To be written before the install. */
  file: ProgramFile
  /** Writes the caller's own back, unless the install changed it. Never rejects. */
  restore(sandbox: Pick<Sandbox, 'read' | 'write'>): Promise<void>
}

/** `redirect` moves addresses to the package proxy. */
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
        // Written files wait for the next request, and this one may be the last of the turn.
        await sandbox.read(path, own.length)
      } catch {
        // The sandbox is gone, or the file: there is nothing to give back.
      }
    },
  }
}

/** Whether yarn 2 or later wrote it; yarn 1 takes such a file for one that is out of date. */
export const isBerry = (text: string): boolean => /^__metadata:/m.test(text)

/** The yarn to fetch for a lock file: yarn 2 and later read older files than their own, never newer ones. */
export function yarnFor(text: string): string {
  const written = /^__metadata:\s+version: (\d+)/m.exec(text)?.[1]
  if (written === undefined) return isBerry(text) ? '@yarnpkg/cli-dist@4' : 'yarn@1'
  return Number(written) <= 6 ? '@yarnpkg/cli-dist@3' : '@yarnpkg/cli-dist@4'
}

/** The pnpm to fetch for a lock file: pnpm 10 reads 9.0 alone, pnpm 9 also the 6.0 of pnpm 8. */
export const pnpmFor = (text: string): string =>
  /^lockfileVersion: '?6\./m.test(text) ? 'pnpm@9' : 'pnpm@10'
