/**
 * The source of an earlier commit in a temporary folder, beside the packages of this checkout, so that
 * processes of two versions can serve one fleet.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { EARLIER_COMMIT } from '../scripts/earlier-commit.ts'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('..', import.meta.url))
/** Enough to enqueue 20,000 executions on a machine that is twenty times as slow as a quiet one. */
const SCRIPT_MS = 900_000

export interface EarlierBuild extends AsyncDisposable {
  /** Number of its newest migration. */
  schema: number
  /** A file of that commit. */
  file(name: string): URL
  /**
   * Runs JavaScript as a module in that folder, so that it imports the earlier build's packages. Resolves
   * with what it printed.
   */
  script(source: string, env: Record<string, string>): Promise<string>
}

/** Unpacks the commit. `await using` removes it. */
export async function unpackEarlierBuild(): Promise<EarlierBuild> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-earlier-'))
  await run('sh', ['-c', `git -C "$0" archive ${EARLIER_COMMIT} | tar -x -C "$1"`, ROOT, folder])
  await linkPackages(folder)
  const migrations = await readdir(path.join(folder, 'libs/store/migrations'))
  return {
    schema: Math.max(...migrations.map((name) => Number.parseInt(name, 10))),
    file: (name) => pathToFileURL(path.join(folder, name)),
    async script(source, env) {
      const { stdout } = await run(process.execPath, ['--input-type=module', '-e', source], {
        cwd: folder,
        env: { PATH: process.env['PATH'], HOME: os.tmpdir(), ...env },
        timeout: SCRIPT_MS,
        maxBuffer: 64 * 1024 * 1024,
      })
      return stdout
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}

/**
 * Links to third-party packages of this checkout. Copies npm's links to our own packages, which lead into
 * `folder` itself.
 */
async function linkPackages(folder: string): Promise<void> {
  const [from, to] = [path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules')]
  await mkdir(to)
  for (const name of await readdir(from))
    if (name === '@cofferdam') await cp(path.join(from, name), path.join(to, name), COPY)
    else await symlink(path.join(from, name), path.join(to, name))
  // libs/egress needs another version of a package than the root has.
  const nested = 'libs/egress/node_modules'
  if (existsSync(path.join(ROOT, nested))) await symlink(path.join(ROOT, nested), path.join(folder, nested))
}

const COPY = { recursive: true, verbatimSymlinks: true }
