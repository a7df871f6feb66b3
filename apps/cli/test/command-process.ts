/** Runs the command as users do: as a process with its own environment. */
import { spawn, type ChildProcess } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const { PATH = '', HOME = '', NODE_COMPILE_CACHE = '', DOCKER_HOST } = process.env
const docker = DOCKER_HOST === undefined ? {} : { DOCKER_HOST }
const MAIN = fileURLToPath(new URL('../src/main.ts', import.meta.url))

export interface Ended {
  status: number | null
  signal: string | null
  stdout: string
  stderr: string
}

export interface Running {
  child: ChildProcess
  ended: Promise<Ended>
  /** What was printed so far. */
  readonly stdout: string
  readonly stderr: string
}

export interface Place {
  cwd: string
  env: Record<string, string>
}

/** Starts `cofferdam …args` with PATH, HOME, DOCKER_HOST, the compile cache and the variables of `place`. */
export function start(args: readonly string[], place: Place, input = ''): Running {
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd: place.cwd,
    env: { PATH, HOME, NODE_COMPILE_CACHE, ...docker, ...place.env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const seen = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => (seen[name] += text))
  // A command that does not read its input may end before the input is written.
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  const { promise, resolve } = Promise.withResolvers<Ended>()
  child.on('close', (status, signal) => resolve({ status, signal, ...seen }))
  return {
    child,
    ended: promise,
    get stdout() {
      return seen.stdout
    },
    get stderr() {
      return seen.stderr
    },
  }
}

/** Runs the command to its end. */
export const run = (args: readonly string[], place: Place, input = ''): Promise<Ended> =>
  start(args, place, input).ended

/** Command lines of running processes that contain `text`. Empty on systems other than Linux. */
export function processesNaming(text: string): string[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
        return words.includes(text) ? [`${pid} ${words}`] : []
      } catch {
        return [] // ended meanwhile
      }
    })
}
