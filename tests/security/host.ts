/** What the host itself says, without asking the code under test: /proc, cgroup folders, the Docker client, the file system. */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import type { SandboxRef } from '@cofferdam/contract'
import type { Target } from './target.ts'

const orElse = <T>(read: () => T, otherwise: T): T => {
  try {
    return read()
  } catch {
    return otherwise
  }
}

const pids = (): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
const read = (path: string): string => orElse(() => readFileSync(path, 'utf8'), '')
const docker = (...args: string[]): string =>
  execFileSync('docker', args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: 30_000,
  }).trim()

/** A field of /proc/<pid>/status, without its unit. */
export const statusOf = (pid: number, field: string): string =>
  new RegExp(`^${field}:[ \\t]*(.*?)(?: kB)?[ \\t]*$`, 'm').exec(read(`/proc/${pid}/status`))?.[1] ?? ''

/** Living processes (zombies run nothing) whose command line contains `marker`. */
export const processesNamed = (marker: string): number[] =>
  pids().filter(
    (pid) =>
      pid !== process.pid &&
      read(`/proc/${pid}/cmdline`).includes(marker) &&
      !statusOf(pid, 'State').startsWith('Z'),
  )

function childrenOf(root: number): number[] {
  const parents = new Map(pids().map((pid) => [pid, Number(statusOf(pid, 'PPid'))]))
  const found = [root]
  for (const pid of found) for (const [child, parent] of parents) if (parent === pid) found.push(child)
  return found.slice(1).filter((pid) => !statusOf(pid, 'State').startsWith('Z'))
}

/** Host pid of the agent of a running sandbox. */
export function agentOf(target: Target, ref: SandboxRef): number {
  if (target.backend === 'process') return Number(ref.handle['pid'])
  return Number(docker('inspect', '--format', '{{.State.Pid}}', `cofferdam-${ref.handle['slot']}`))
}

/** Host pids of all that runs in a sandbox beside its agent: by its pid namespace, or as descendants where it has none. */
export function processesOf(target: Target, ref: SandboxRef): number[] {
  const agent = agentOf(target, ref)
  const namespace = (pid: number): string => orElse(() => readlinkSync(`/proc/${pid}/ns/pid`), '')
  const own = namespace(agent)
  if (own === '' || own === readlinkSync('/proc/self/ns/pid')) return childrenOf(agent)
  return pids().filter((pid) => pid !== agent && namespace(pid) === own)
}

/** Everything that a finished sandbox may have left on this host; empty is the only good answer. */
export function leftoversOf(target: Target): string[] {
  const left: string[] = childrenOf(target.pid).map((pid) => `process ${pid} ${read(`/proc/${pid}/cmdline`)}`)
  if (target.backend === 'docker')
    left.push(
      ...docker('ps', '-aq', '--filter', `label=cofferdam.owner=${target.owner}`).split('\n').filter(Boolean),
    )
  const sandboxes = `${target.runtimeDir}/sandboxes`
  for (const backend of existsSync(sandboxes) ? readdirSync(sandboxes) : [])
    left.push(...readdirSync(`${sandboxes}/${backend}`, { recursive: true }).map(String))
  left.push(
    ...read('/proc/self/mounts')
      .split('\n')
      .filter((line) => line.includes(target.runtimeDir)),
  )
  return left
}

/** Folders of cgroups of this host that belong to the sandbox, in either version. */
export const cgroupsOf = (ref: SandboxRef): string[] =>
  ['', ...readdirSync('/sys/fs/cgroup')]
    .map((controller) => `/sys/fs/cgroup/${controller}/cofferdam/${ref.id}`)
    .filter((folder) => existsSync(folder))

/** Forgets the peak of a process's memory, so that `peakMemoryOf` starts anew. */
export const resetPeakMemory = (pid: number): void =>
  orElse(() => writeFileSync(`/proc/${pid}/clear_refs`, '5'), undefined)
export const memoryOf = (pid: number): number => Number(statusOf(pid, 'VmRSS')) * 1024
export const peakMemoryOf = (pid: number): number => Number(statusOf(pid, 'VmHWM')) * 1024
