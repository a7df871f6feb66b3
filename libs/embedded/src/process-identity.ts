/**
 * Process ids are reused, so a pid alone proves nothing: a process is named by its pid and its start time.
 * Linux reads /proc/<pid>/stat; elsewhere `ps` answers.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

export interface ProcessIdentity {
  pid: number
  /** Clock ticks since boot on Linux (proc(5), field 22), the text of `ps -o lstart` elsewhere. */
  startedAt: string
}

/** The identity of a living process; null when there is none of that pid, or only its zombie. */
export function identify(pid: number): ProcessIdentity | null {
  const startedAt = process.platform === 'linux' ? startFromProc(pid) : startFromPs(pid)
  return startedAt === null ? null : { pid, startedAt }
}

/** True while the very process still lives. */
export function isAlive(identity: ProcessIdentity): boolean {
  return identify(identity.pid)?.startedAt === identity.startedAt
}

function startFromProc(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The command name may hold spaces and parentheses: fields are counted from the last one.
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
