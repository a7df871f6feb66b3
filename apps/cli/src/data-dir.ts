/**
 * The data directory of `up`: one `up` at a time, and removed only when it is surely ours.
 *
 *   absent | empty ──open──> marked and claimed ──close──> marked
 *   not empty, not marked ──open──> claimed, never marked: `--clean` refuses it for good
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { claimDirectory, type Claim } from '@cofferdam/embedded'
import { UsageError } from './usage-error.ts'

/** Written into a directory that `up` made or found empty. */
const MARKER = '.cofferdam'
/** Files of the claim itself (libs/embedded); they stay while the rest is removed under it. */
const CLAIM_FILES = ['owner.lock', 'owner.lock-journal', 'server.json']

/** Where private-servers.ts keeps its servers. */
const SERVER_DIRS = ['redis', 'postgres']

/**
 * Makes the directory when it is absent: closed to others. Root's may be entered (not listed), because Postgres refuses
 * to run as root and must reach its own folder inside as another user; every file and folder in it is closed by itself.
 */
export function makeDataDir(dataDir: string): void {
  mkdirSync(dataDir, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 })
}

/** Claims the directory (and empties it with `clean`). Throws `UsageError` and EmbeddedServerError `directory_in_use`. */
export async function openDataDir(dataDir: string, options: { clean: boolean }): Promise<Claim> {
  const entries = existsSync(dataDir) ? readdirSync(dataDir) : []
  const marked = entries.includes(MARKER)
  if (options.clean && entries.length > 0 && !marked)
    throw new UsageError(
      `--clean removes only what \`cofferdam up\` made, and ${dataDir} does not carry its mark. Remove it by hand, or choose another with COFFERDAM_DATA_DIR.`,
    )
  makeDataDir(dataDir)
  const claim = await claimDirectory(dataDir, 'cofferdam up')
  // A reader's lock on it would keep us from claiming: nobody else needs to open it.
  chmodSync(path.join(dataDir, 'owner.lock'), 0o600)
  claim.record(process.pid, null)
  if (options.clean) await stopLeftServers(dataDir)
  if (options.clean)
    for (const entry of entries)
      if (!CLAIM_FILES.includes(entry)) rmSync(path.join(dataDir, entry), { recursive: true, force: true })
  if (entries.length === 0 || marked)
    writeFileSync(path.join(dataDir, MARKER), 'Made by `cofferdam up`; `cofferdam up --clean` removes it.\n')
  return claim
}

/** A server that outlived its `up` (SIGKILL, no PDEATHSIG) must not go on in removed files: claiming stops it. */
async function stopLeftServers(dataDir: string): Promise<void> {
  for (const name of SERVER_DIRS) {
    const directory = path.join(dataDir, name)
    if (existsSync(directory)) (await claimDirectory(directory, name)).release()
  }
}
