/** Looks programs up and runs short ones to their end. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The absolute path of the first of `names` that is on PATH; null when none is. */
export async function findOnPath(names: readonly string[]): Promise<string | null> {
  for (const name of names) {
    try {
      const { stdout } = await run('/bin/sh', ['-c', 'command -v -- "$1"', 'sh', name])
      const path = stdout.trim()
      if (path.startsWith('/')) return path
    } catch {
      // `command -v` answers 127 or 1 for a name it does not know.
    }
  }
  return null
}

export interface RunOptions {
  cwd?: string
  env?: Record<string, string>
  uid?: number
  gid?: number
  timeoutMs: number
}

/** Runs to the end and returns stdout; throws with the program's stderr in the message. Output bound: 1 MiB. */
export async function runProgram(argv: readonly [string, ...string[]], options: RunOptions): Promise<string> {
  const [file, ...args] = argv
  const { timeoutMs, ...rest } = options
  const { stdout } = await run(file, args, { ...rest, timeout: timeoutMs, killSignal: 'SIGKILL' })
  return stdout
}

/** True when the program runs and exits with 0 in time. */
export async function succeeds(argv: readonly [string, ...string[]], options: RunOptions): Promise<boolean> {
  try {
    await runProgram(argv, options)
    return true
  } catch {
    return false
  }
}

/** Words that make the server die with us on SIGKILL; none where the system has no `setpriv`. */
export async function dieWithParent(signal: 'INT' | 'TERM' | 'KILL'): Promise<string[]> {
  const setpriv = await findOnPath(['setpriv'])
  if (setpriv === null) return []
  const works = await succeeds([setpriv, '--pdeathsig', signal, '--', '/bin/true'], { timeoutMs: 5000 })
  return works ? [setpriv, '--pdeathsig', signal, '--'] : []
}
