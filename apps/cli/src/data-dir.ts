/**
 * The data directory of `up`, and the database in it. One `up` at a time may use the directory. `--clean`
 * removes only a directory that `up` created.
 *
 *   absent | empty ──open──> marked and claimed ──close──> marked
 *   not empty, not marked ──open──> claimed, never marked: `--clean` always refuses it
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { hostname } from 'node:os'
import path from 'node:path'
import { isCofferdamError } from '@cofferdam/contract'
import { type Claim, claimDirectory } from '@cofferdam/embedded'
import { createStore, migrate, type Store } from '@cofferdam/store'
import { adminKeyFile } from './api-connection.ts'
import { UsageError } from './usage-error.ts'

/** Written into a directory that `up` made or found empty. */
const MARKER = '.cofferdam'
/** Files of the claim itself (libs/embedded), which `--clean` keeps. */
const CLAIM_FILES = ['owner.lock', 'owner.lock-journal', 'server.json']

/** The folders of the servers of private-servers.ts. */
const SERVER_DIRS = ['redis', 'postgres']

/**
 * Creates the directory if it is absent. Other users cannot use it. Only if root creates it, they may enter
 * it (not list it), because root's Postgres runs as another user. Every file and folder inside keeps others
 * out by its own mode.
 */
export function makeDataDir(dataDir: string): void {
  mkdirSync(dataDir, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 })
}

/** Claims the directory, and empties it with `clean`. Throws `UsageError` and `directory_in_use`. */
export async function openDataDir(dataDir: string, options: { clean: boolean }): Promise<Claim> {
  const entries = existsSync(dataDir) ? readdirSync(dataDir) : []
  const marked = entries.includes(MARKER)
  if (options.clean && entries.length > 0 && !marked)
    throw new UsageError(
      `--clean removes only a directory that \`cofferdam up\` created, and ${dataDir} is not one. ` +
        'Remove it yourself, or choose another directory with COFFERDAM_DATA_DIR.',
    )
  makeDataDir(dataDir)
  const claim = await claimDirectory(dataDir, 'cofferdam up')
  // Only this user may open the file. Another user who could read it could lock it, and so prevent a claim.
  chmodSync(path.join(dataDir, 'owner.lock'), 0o600)
  claim.record(process.pid, null)
  if (options.clean) await stopLeftServers(dataDir)
  if (options.clean)
    for (const entry of entries)
      if (!CLAIM_FILES.includes(entry)) rmSync(path.join(dataDir, entry), { recursive: true, force: true })
  if (entries.length === 0 || marked)
    writeFileSync(
      path.join(dataDir, MARKER),
      'Created by `cofferdam up`; `cofferdam up --clean` removes it.\n',
    )
  return claim
}

/** Stops servers that outlived their `up` (SIGKILL, no PDEATHSIG): they must not use removed files. */
async function stopLeftServers(dataDir: string): Promise<void> {
  for (const name of SERVER_DIRS) {
    const directory = path.join(dataDir, name)
    if (existsSync(directory)) (await claimDirectory(directory, name)).release()
  }
}

export const DEMO_TENANT = 'demo'

/**
 * Migrates the database, creates the demo tenant, and returns the admin key, which it writes to a file that
 * only this user can read. May be repeated.
 */
export async function prepareStore(databaseUrl: string, dataDir: string): Promise<{ adminKey: string }> {
  await migrate(databaseUrl)
  makeDataDir(dataDir)
  await using store = await createStore({ databaseUrl, blobDir: path.join(dataDir, 'blobs') })
  try {
    await store.tenants.create({ tenant_id: DEMO_TENANT }, 'cofferdam')
  } catch (error) {
    if (!isCofferdamError(error) || error.code !== 'conflict') throw error
  }
  return { adminKey: await adminKeyOf(store, dataDir) }
}

/** The key in the file if the database knows it, else a new key, written to the file. */
async function adminKeyOf(store: Store, dataDir: string): Promise<string> {
  const file = adminKeyFile(dataDir)
  if (existsSync(file)) {
    const kept = readFileSync(file, 'utf8').trim()
    if ((await store.keys.verify(kept))?.scope === 'admin') {
      chmodSync(file, 0o600)
      return kept
    }
  }
  const { key } = await store.keys.create('admin', `made on ${hostname()} for ${file}`.slice(0, 200), {
    actor: 'cofferdam',
  })
  // Written to another file and renamed, so that the file is never incomplete or readable by others.
  writeFileSync(`${file}.new`, `${key}\n`, { mode: 0o600 })
  renameSync(`${file}.new`, file)
  return key
}
