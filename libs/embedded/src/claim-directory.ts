/**
 * One owner per data directory, also between processes, also after a crash.
 *
 *   free ──claim──> claimed (lock held) ──record──> served (server.json names owner and server) ──release──> free
 *                      │
 *                      └─ an owner that died (SIGKILL) loses the lock with its last file descriptor; the next claim
 *                         finds server.json, stops the orphaned server if it lives, and removes its socket directory
 *
 * The lock is an exclusive transaction of a SQLite file: a POSIX record lock, so the kernel drops it with the process
 * and no stale lock file has to be guessed at. (Node has no flock of its own.)
 */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { EmbeddedServerError } from './embedded-server-error.ts'
import { identify, isAlive, type ProcessIdentity } from './process-identity.ts'
import { isPrivateSocketDir } from './socket-place.ts'

/** How long an orphan may take to shut down before it is killed: a durable server may still be writing. */
const ORPHAN_GRACE_MS = 10_000

interface ServerRecord {
  owner: ProcessIdentity
  server: ProcessIdentity
  /** A temporary directory that goes with the server; null when the socket stands in the data directory. */
  socketDir: string | null
}

export interface Claim {
  /** Writes down which server now runs here, for whoever comes after a crash. */
  record(serverPid: number, socketDir: string | null): void
  /** Gives the directory back. Idempotent. */
  release(): void
}

/** Claims `dataDir` (made when absent) or throws `directory_in_use`, naming the other process. */
export async function claimDirectory(dataDir: string, what: string): Promise<Claim> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const recordPath = join(dataDir, 'server.json')
  const lock = takeLock(join(dataDir, 'owner.lock'))
  if (lock === null) {
    const pid = readRecord(recordPath)?.owner.pid
    throw new EmbeddedServerError(
      'directory_in_use',
      `${what}: ${dataDir} is in use by another process${pid === undefined ? '' : ` (pid ${pid})`}. ` +
        'Stop that one first, or choose another data directory (COFFERDAM_DATA_DIR).',
    )
  }
  try {
    await clearOrphan(recordPath)
  } catch (error) {
    lock.close()
    throw error
  }
  return {
    record(serverPid, socketDir) {
      const owner = identify(process.pid)
      const server = identify(serverPid)
      if (owner === null || server === null) return
      const fresh = `${recordPath}.new`
      writeFileSync(fresh, JSON.stringify({ owner, server, socketDir } satisfies ServerRecord), {
        mode: 0o600,
      })
      renameSync(fresh, recordPath)
    },
    release() {
      if (!lock.isOpen) return
      rmSync(recordPath, { force: true })
      lock.close()
    },
  }
}

function takeLock(path: string): DatabaseSync | null {
  const lock = new DatabaseSync(path, { timeout: 0 })
  try {
    lock.exec('begin exclusive')
    return lock
  } catch (error) {
    lock.close()
    // SQLITE_BUSY is 5 (sqlite3.h); anything else is a broken disk or permissions.
    if (error instanceof Error && 'errcode' in error && error.errcode === 5) return null
    throw error
  }
}

function readRecord(path: string): ServerRecord | null {
  try {
    const record: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return isServerRecord(record) ? record : null
  } catch {
    return null
  }
}

async function clearOrphan(recordPath: string): Promise<void> {
  const record = readRecord(recordPath)
  if (record === null) return
  if (isAlive(record.server)) await stopProcess(record.server, ORPHAN_GRACE_MS)
  if (record.socketDir !== null && isOurTemporaryDir(record.socketDir))
    rmSync(record.socketDir, { recursive: true, force: true })
  rmSync(recordPath, { force: true })
}

/** SIGINT is a fast shutdown for both servers; SIGKILL after the grace. */
async function stopProcess(identity: ProcessIdentity, graceMs: number): Promise<void> {
  const killAt = Date.now() + graceMs
  signal(identity, 'SIGINT')
  while (isAlive(identity)) {
    if (Date.now() > killAt) signal(identity, 'SIGKILL')
    await delay(10)
  }
}

function signal(identity: ProcessIdentity, name: NodeJS.Signals): void {
  try {
    process.kill(identity.pid, name)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

/** The record is a file that anybody with access to the directory may have edited: only our own names are removed. */
function isOurTemporaryDir(path: string): boolean {
  return isPrivateSocketDir(basename(path)) && [tmpdir(), '/tmp'].includes(dirname(path))
}

function isServerRecord(value: unknown): value is ServerRecord {
  if (typeof value !== 'object' || value === null) return false
  if (!('owner' in value && 'server' in value && 'socketDir' in value)) return false
  return (
    isIdentity(value.owner) &&
    isIdentity(value.server) &&
    (value.socketDir === null || typeof value.socketDir === 'string')
  )
}

function isIdentity(value: unknown): value is ProcessIdentity {
  if (typeof value !== 'object' || value === null || !('pid' in value && 'startedAt' in value)) return false
  // Pids 0 and below address process groups, 1 is init: never ours to signal.
  return typeof value.pid === 'number' && value.pid > 1 && typeof value.startedAt === 'string'
}
