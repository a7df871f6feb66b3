/**
 * Which versions of Firecracker the engine speaks to. 1.16.0 is refused: after a restore the guest’s vsock
 * can stay dead there (firecracker#5958, mended in 1.16.1). A second major version may change any call.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

const OLDEST = [1, 16, 1] as const
const FIRST_UNKNOWN_MAJOR = 2

/** Null if the version is accepted, else why not. Takes `1.16.1`, `v1.16.1` and `1.17.0-dev`. */
export function refuseVersion(version: string): string | null {
  const [, ...numbers] = /^v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:-[0-9A-Za-z.-]{1,40})?$/.exec(version) ?? []
  const [major, minor, patch] = numbers.map(Number)
  if (major === undefined || minor === undefined || patch === undefined)
    return `${JSON.stringify(version.slice(0, 40))} is no version`
  if (major >= FIRST_UNKNOWN_MAJOR) return `${version} is newer than what is known here (below 2.0.0)`
  const isOld = [major, minor, patch]
  for (const [at, oldest] of OLDEST.entries()) {
    const mine = isOld[at] ?? 0
    if (mine > oldest) return null
    if (mine < oldest) return `${version} is older than ${OLDEST.join('.')}, whose vsock survives a restore`
  }
  return null
}

/** What `<binary> --version` prints: `Firecracker v1.16.1` or `Jailer v1.16.1`. Null if it prints neither. */
export async function versionOf(binary: string): Promise<string | null> {
  try {
    const { stdout } = await run(binary, ['--version'], { timeout: 10_000, maxBuffer: 65_536, env: {} })
    return /^(?:Firecracker|Jailer) v(\S{1,60})/m.exec(stdout)?.[1] ?? null
  } catch {
    return null
  }
}
