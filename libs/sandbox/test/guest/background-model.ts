/** What must live after each step of a session that keeps processes, and how to see that from outside. */
import { readFileSync } from 'node:fs'

/** The number that a program wrote into a file. */
export const pidIn = (path: string): number => Number(readFileSync(path, 'utf8'))

/** False also for a process that has ended and waits for its parent. */
export function isRunning(pid: number): boolean {
  try {
    const state = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.[0]
    return state !== 'Z' && state !== 'X'
  } catch {
    return false
  }
}

/** One execution, or what happens to one. */
export type Step =
  | { do: 'bash' | 'python' | 'command' }
  | { do: 'start'; in: 'bash' | 'python' | 'command' }
  | { do: 'kill'; job: number }
  | { do: 'write' }
  | { do: 'exit'; in: 'bash' | 'python' }
  /** A program hangs and is interrupted; `stubborn` programs only obey SIGTERM. */
  | { do: 'time out'; in: 'bash' | 'python'; stubborn: boolean }

interface Job {
  name: string
  isAlive: boolean
  /** The shell in whose process group the job is; null if the job has its own group. */
  shell: number | null
}

type Kept = 'bash' | 'python'

/** Predicts a session. */
export class Model {
  readonly jobs: Job[] = []
  readonly files = new Set<string>()
  /** How many runs the kept interpreter of each language has counted; null if that interpreter has ended. */
  readonly #counts = new Map<Kept, number | null>()
  #shells = 0

  /** A run begins in this language. Returns which interpreter it finds. */
  run(language: Kept): 'none' | 'kept' | 'restarted' {
    const before = this.#counts.get(language)
    const found = before === undefined ? 'none' : before === null ? 'restarted' : 'kept'
    if (found !== 'kept') {
      this.#counts.set(language, 0)
      if (language === 'bash') this.#shells += 1
    }
    return found
  }

  /** The run that has begun adds one to the counter of its interpreter and prints it. */
  count(language: Kept): number {
    const count = (this.#counts.get(language) ?? 0) + 1
    this.#counts.set(language, count)
    return count
  }

  start(name: string, kind: Kept | 'command'): void {
    this.jobs.push({ name, isAlive: true, shell: kind === 'bash' ? this.#shells : null })
  }

  /** The interpreter ends, and nothing else. */
  lose(language: Kept): void {
    this.#counts.set(language, null)
  }

  /** SIGTERM was sent, so the interpreter's whole process group ends. */
  endGroup(language: Kept): void {
    this.lose(language)
    for (const job of this.jobs) if (language === 'bash' && job.shell === this.#shells) job.isAlive = false
  }
}
