/**
 * Third-party programs that test /mcp. They are installed once, and run with the Node of this process and a
 * home folder of their own.
 */
import { execFile } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const ORACLES = fileURLToPath(new URL('../../../tests/mcp-oracles', import.meta.url))
const MODULES = path.join(ORACLES, 'node_modules')

export interface Ran {
  code: number
  stdout: string
  stderr: string
}

export interface Oracles extends AsyncDisposable {
  /** An empty folder, removed at the end. The programs' home and working directory. */
  home: string
  /** Runs the program at `file`, relative to the packages. Ends it after `timeoutMs`, 120 s by default. */
  run(
    file: string,
    args: readonly string[],
    options?: { timeoutMs?: number; env?: Record<string, string> },
  ): Promise<Ran>
}

/** Installs the packages if they are not there, or older than the lockfile. */
export async function openOracles(): Promise<Oracles> {
  const [installed, wanted] = [
    path.join(MODULES, '.package-lock.json'),
    path.join(ORACLES, 'package-lock.json'),
  ]
  if (!existsSync(installed) || statSync(installed).mtimeMs < statSync(wanted).mtimeMs)
    await promisify(execFile)('npm', ['ci', '--loglevel=error'], { cwd: ORACLES })
  const home = await mkdtemp(path.join(tmpdir(), 'cofferdam-oracles-'))
  const env = { PATH: `${path.dirname(process.execPath)}:${process.env['PATH'] ?? ''}`, HOME: home }
  return {
    home,
    run: (file, args, { timeoutMs = 120_000, env: more = {} } = {}) =>
      new Promise((resolve) => {
        const own = { cwd: home, env: { ...env, ...more } }
        const options = { ...own, timeout: timeoutMs, maxBuffer: 64 * 1024 * 1024 }
        execFile(process.execPath, [path.join(MODULES, file), ...args], options, (error, stdout, stderr) =>
          resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }),
        )
      }),
    [Symbol.asyncDispose]: () => rm(home, { recursive: true, force: true }),
  }
}
