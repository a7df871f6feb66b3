/**
 * Gives a data directory one owner at a time, across processes and crashes.
 *
 *   free ──claim──> claimed (lock held) ──record──> served (server.json written) ──release──> free
 *                      │
 *                      └─ if the owner dies, the kernel drops its lock. The next claim finds server.json,
 *                         stops the orphaned server if it still runs, and removes its socket directory.
 *
 * Node has no flock, so the lock is an exclusive transaction on a SQLite file, which is a POSIX record lock.
 * The kernel drops it with the process, so there are no stale lock files.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { EmbeddedServerError } from './embedded-server-error.ts'
import { isPrivateSocketDir } from './socket-directory.ts'

/** How long an orphan may take to shut down before it is killed. A durable server may still be writing. */
const ORPHAN_GRACE_MS = 10_000

interface ServerRecord {
  owner: ProcessIdentity
  server: ProcessIdentity
  /** The server's temporary directory. Null when the socket is in the data directory. */
  socketDir: string | null
}

export interface Claim {
  /** Records the server that runs here now, for the next claim after a crash. */
  record(serverPid: number, socketDir: string | null): void
  /** Releases the directory. Idempotent. */
  release(): void
}

/** Claims `dataDir`, created if absent. Throws `directory_in_use`, which names the other process. */
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
    // 5 is SQLITE_BUSY (sqlite3.h). Anything else is a disk or permission problem.
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

/** SIGINT is a fast shutdown for both servers. SIGKILL follows after the grace period. */
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

/** Only our own directory names are removed, because anybody with access can edit the record. */
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
  // Pids 0 and below are process groups, and 1 is init. Never signal these.
  return typeof value.pid === 'number' && value.pid > 1 && typeof value.startedAt === 'string'
}

/** A process by pid and start time, because pids are reused. */
export interface ProcessIdentity {
  pid: number
  /** Clock ticks since boot on Linux (proc(5), field 22), the text of `ps -o lstart` elsewhere. */
  startedAt: string
}

/** The identity of a running process. Null for a free pid or a zombie. Reads /proc, or asks `ps`. */
export function identify(pid: number): ProcessIdentity | null {
  const startedAt = process.platform === 'linux' ? startFromProc(pid) : startFromPs(pid)
  return startedAt === null ? null : { pid, startedAt }
}

/** True while exactly this process runs. */
export function isAlive(identity: ProcessIdentity): boolean {
  return identify(identity.pid)?.startedAt === identity.startedAt
}

function startFromProc(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The command name can contain spaces and parentheses, so fields are counted from the last parenthesis.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? null : (fields[19] ?? null)
  } catch {
    return null
  }
}

function startFromPs(pid: number): string | null {
  try {
    const text = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim()
    return text === '' ? null : text
  } catch {
    return null
  }
}
