/**
 * Redis from Debian's or Ubuntu's packages, without root: `apt-get download`, then `dpkg-deb -x` into a cache
 * folder. redis-tools contains `redis-check-rdb`, which acts as the server when it is called `redis-server`.
 * 1.3 MB, about 3 s the first time. Needs package lists (`apt-get update` once as root).
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { findOnPath, runProgram } from './find-program.ts'

const PACKAGES = ['redis-tools', 'liblzf1', 'libjemalloc2', 'libatomic1'] as const
const DOWNLOAD_TIMEOUT_MS = 60_000

export interface UnpackedRedis {
  server: string
  /** Value for LD_LIBRARY_PATH. */
  libraries: string
}

/** The unpacked server in the cache, downloaded if absent. Null without apt, package lists or network. */
export async function debianRedis(cacheDir: string): Promise<UnpackedRedis | null> {
  if (process.platform !== 'linux') return null
  const home = join(cacheDir, 'redis-debian')
  const cached = await usable(home)
  if (cached !== null) return cached
  if ((await findOnPath(['apt-get'])) === null || (await findOnPath(['dpkg-deb'])) === null) return null
  mkdirSync(cacheDir, { recursive: true, mode: 0o700 })
  const fresh = mkdtempSync(join(cacheDir, 'redis-debian-'))
  try {
    await unpackInto(fresh)
    if ((await usable(fresh)) === null) return null
    publish(fresh, home)
    return await usable(home)
  } catch {
    return null
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}

async function unpackInto(dir: string): Promise<void> {
  await runProgram(['apt-get', 'download', ...PACKAGES], { cwd: dir, timeoutMs: DOWNLOAD_TIMEOUT_MS })
  for (const file of readdirSync(dir).filter((name) => name.endsWith('.deb'))) {
    await runProgram(['dpkg-deb', '-x', file, dir], { cwd: dir, timeoutMs: DOWNLOAD_TIMEOUT_MS })
    rmSync(join(dir, file))
  }
  const bin = join(dir, 'usr', 'bin')
  if (!existsSync(join(bin, 'redis-server'))) symlinkSync('redis-check-rdb', join(bin, 'redis-server'))
}

/** Several processes may unpack at once. The first rename wins, and replaces a broken older copy. */
function publish(fresh: string, home: string): void {
  try {
    renameSync(fresh, home)
  } catch {
    const broken = `${fresh}-old`
    try {
      renameSync(home, broken)
      renameSync(fresh, home)
    } catch {
      // Another process was faster. Its copy is as good.
    } finally {
      rmSync(broken, { recursive: true, force: true })
    }
  }
}

async function usable(home: string): Promise<UnpackedRedis | null> {
  const server = join(home, 'usr', 'bin', 'redis-server')
  if (!existsSync(server)) return null
  const libraries = join(home, 'usr', 'lib')
  const folders = readdirSync(libraries, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  const path = folders.map((entry) => join(libraries, entry.name)).join(':')
  try {
    await runProgram([server, '--version'], { env: { LD_LIBRARY_PATH: path }, timeoutMs: 5000 })
    return { server, libraries: path }
  } catch {
    return null
  }
}
