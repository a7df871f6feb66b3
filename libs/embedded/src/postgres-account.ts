/**
 * Chooses the account that runs Postgres, which refuses to run as root. A normal user runs it directly. Root
 * tries:
 *   1. `unshare -U`: root becomes an ordinary user inside a user namespace. Needs no chown, and works in
 *      folders of mode 700.
 *   2. `nobody`, if user namespaces are forbidden. Copies the programs to a readable folder, and makes
 *      `nobody` the owner of the data directory.
 */
import { chownSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { EmbeddedServerError } from './embedded-server-error.ts'
import type { PostgresPrograms } from './find-postgres.ts'
import { findOnPath, succeeds } from './find-program.ts'
import { copyPackage } from './postgres-package.ts'

/** `nobody` on Debian, Alpine and Red Hat, and the kernel's overflow uid. */
const NOBODY = 65_534
/** Readable by all and writable by root only. A folder in /tmp could be prepared by another user. */
const READABLE_DIR = '/var/cache/cofferdam'

export interface Account {
  programs: PostgresPrograms
  /** Command prefix for every Postgres program. */
  prefix: readonly string[]
  identity: { uid?: number; gid?: number }
  /** Makes the account own a directory. */
  own(dir: string): void
  how: string
}

/** Chooses the account. Throws `start_failed` when root has no way to run Postgres here. */
export async function postgresAccount(
  programs: PostgresPrograms,
  dataDir: string,
  allowUserNamespace = true,
): Promise<Account> {
  const direct: Account = { programs, prefix: [], identity: {}, own: () => {}, how: programs.how }
  if (process.getuid?.() !== 0) return direct
  const unshare = allowUserNamespace ? await findOnPath(['unshare']) : null
  if (unshare !== null) {
    const id = String(mappedUser())
    const prefix = [unshare, '-U', `--map-user=${id}`, `--map-group=${id}`]
    if (await succeeds([unshare, ...prefix.slice(1), '/bin/true'], { timeoutMs: 5000 }))
      return { ...direct, prefix, how: `${programs.how}, in a user namespace` }
  }
  return asNobody(programs, dataDir)
}

/**
 * The uid that root has in the namespace. initdb looks it up in passwd, so it is 1000 if passwd has that, or
 * else the first uid above 0.
 */
function mappedUser(): number {
  const uids = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => Number(line.split(':')[2]))
    .filter((uid) => Number.isInteger(uid) && uid > 0)
  return uids.includes(1000) ? 1000 : (uids[0] ?? 1000)
}

async function asNobody(programs: PostgresPrograms, dataDir: string): Promise<Account> {
  const identity = { uid: NOBODY, gid: NOBODY }
  const usable = (program: string): Promise<boolean> =>
    succeeds([program, '--version'], { ...identity, timeoutMs: 5000, cwd: '/' })
  const readable = (await usable(programs.postgres)) ? programs : copiedPrograms(programs)
  if (!(await usable(readable.postgres)))
    throw new EmbeddedServerError(
      'start_failed',
      'Postgres does not run as root, this system forbids user namespaces, and uid 65534 cannot execute ' +
        `${readable.postgres}. Start as a normal user, or set DATABASE_URL.`,
    )
  const own = (dir: string): void => chownSync(dir, NOBODY, NOBODY)
  own(dataDir)
  if (
    !(await succeeds(['/bin/sh', '-c', 'test -w "$0"', dataDir], { ...identity, timeoutMs: 5000, cwd: '/' }))
  )
    throw new EmbeddedServerError(
      'start_failed',
      'Postgres does not run as root, this system forbids user namespaces, and uid 65534 cannot reach ' +
        `${dataDir}. Choose a data directory below one that everybody may enter ` +
        '(COFFERDAM_DATA_DIR=/var/lib/cofferdam), start as a normal user, or set DATABASE_URL.',
    )
  return { programs: readable, prefix: [], identity, own, how: `${programs.how}, as uid 65534` }
}

function copiedPrograms(programs: PostgresPrograms): PostgresPrograms {
  if (programs.root === null) return programs
  const copy = join(copyPackage(dirname(programs.root), READABLE_DIR), 'native')
  const bin = join(copy, 'bin')
  return { ...programs, root: copy, initdb: join(bin, 'initdb'), postgres: join(bin, 'postgres') }
}
