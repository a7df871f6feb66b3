/** Finds programs, and runs short ones to their end. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The absolute path of the first of `names` on PATH. Null when none is there. */
export async function findOnPath(names: readonly string[]): Promise<string | null> {
  for (const name of names) {
    try {
      const { stdout } = await run('/bin/sh', ['-c', 'command -v -- "$1"', 'sh', name])
      const path = stdout.trim()
      if (path.startsWith('/')) return path
    } catch {
      // `command -v` exits with 127 or 1 for an unknown name.
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

/** Runs a program and returns up to 1 MiB of its stdout. Throws with its stderr in the message. */
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

type DeathSignal = 'INT' | 'TERM' | 'KILL'
const prefixes = new Map<DeathSignal, Promise<readonly string[]>>()

/**
 * Command prefix that makes the server die with this process. Empty if `setpriv` is missing or does not work.
 * Looked up once per signal.
 */
export function dieWithParent(signal: DeathSignal): Promise<readonly string[]> {
  const prefix = prefixes.get(signal) ?? findDeathPrefix(signal)
  prefixes.set(signal, prefix)
  return prefix
}

async function findDeathPrefix(signal: DeathSignal): Promise<readonly string[]> {
  const setpriv = await findOnPath(['setpriv'])
  if (setpriv === null) return []
  const works = await succeeds([setpriv, '--pdeathsig', signal, '--', '/bin/true'], { timeoutMs: 5000 })
  return works ? [setpriv, '--pdeathsig', signal, '--'] : []
}
