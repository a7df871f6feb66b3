/** What the host itself reports, without the code under test: /proc, cgroups, the Docker client, files. */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import type { SandboxRef } from '@cofferdam/contract'
import { CELLS_MAX, IDLE_MAX, isWarm, type Target } from './target.ts'

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
const namesIn = (folder: string): string[] => orElse(() => readdirSync(folder), [])
const lines = (text: string): string[] => text.split('\n').filter((line) => line !== '')
const read = (path: string): string => orElse(() => readFileSync(path, 'utf8'), '')
const docker = (...args: string[]): string =>
  execFileSync('docker', args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: 30_000,
  }).trim()

/** Returns a field of /proc/<pid>/status without its unit. */
export const statusOf = (pid: number, field: string): string =>
  new RegExp(`^${field}:[ \\t]*(.*?)(?: kB)?[ \\t]*$`, 'm').exec(read(`/proc/${pid}/status`))?.[1] ?? ''

/** Living processes whose command line contains `marker` (zombies run nothing). */
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

/** True if the sandboxes belong to the Docker daemon. */
export const isContainer = ({ backend }: Pick<Target, 'backend'>): boolean =>
  backend === 'docker' || backend === 'gvisor'

/** Host PID of the agent of a running sandbox, or of the sandbox's own kernel or machine. */
export function agentOf(target: Target, ref: SandboxRef): number {
  if (target.backend === 'microvm') return processesNamed(`cofferdam-${ref.handle['slot']}\0`)[0] ?? -1
  if (!isContainer(target)) return Number(ref.handle['pid'])
  return Number(docker('inspect', '--format', '{{.State.Pid}}', `cofferdam-${ref.handle['slot']}`))
}

/** Host PIDs of everything that runs in a sandbox beside its agent: by PID namespace, or else by descent. */
export function processesOf(target: Target, ref: SandboxRef): number[] {
  const agent = agentOf(target, ref)
  const namespace = (pid: number): string => orElse(() => readlinkSync(`/proc/${pid}/ns/pid`), '')
  const own = namespace(agent)
  if (own === '' || own === readlinkSync('/proc/self/ns/pid')) return childrenOf(agent)
  return pids().filter((pid) => pid !== agent && namespace(pid) === own)
}

/** Sandboxes of this worker that the host knows, by their label or by the folders of their records. */
export function slotsOf(target: Target): string[] {
  if (isContainer(target)) {
    const labels = ['--filter', `label=cofferdam.owner=${target.owner}`, '--format', '{{.Names}}']
    return lines(docker('ps', '-a', ...labels)).map((name) => name.replace('cofferdam-', ''))
  }
  if (target.backend === 'microvm') {
    const machines = `${target.runtimeDir}/microvm/machines`
    return namesIn(machines).flatMap((owner) => namesIn(`${machines}/${owner}`))
  }
  const sandboxes = `${target.runtimeDir}/sandboxes`
  return namesIn(sandboxes).flatMap((backend) =>
    namesIn(`${sandboxes}/${backend}`).flatMap((owner) => namesIn(`${sandboxes}/${backend}/${owner}`)),
  )
}

/** A waiting sandbox has at most bwrap twice (the outer one waits), agent, fork server and two forks. */
const PROCESSES_OF_A_SLOT = 6
/** Our processes that start jails: one that serves, and one that waits for the last jail it started. */
const STARTERS_MAX = 2

/**
 * Waiting sandboxes above a limit: unused ones above the pool's, cells above `CELLS_MAX`, or more sockets
 * than unused sandboxes. The excess may last a moment, while sandboxes of one kind replace those of another.
 */
export function crowdOf(target: Target, slots = slotsOf(target)): string[] {
  const cells = slots.filter((slot) => target.cells.has(slot))
  const unused = slots.filter((slot) => !target.cells.has(slot))
  // A socket is created before its sandbox, so `slots` may lack the sandbox. It is removed when the agent has
  // connected.
  const sockets = namesIn(`${target.runtimeDir}/sockets`).flatMap((owner) =>
    namesIn(`${target.runtimeDir}/sockets/${owner}`),
  )
  return [
    ...(sockets.length > unused.length ? [`sockets wait: ${sockets.join()}`] : []),
    ...(isWarm(target) && unused.length > IDLE_MAX ? [`sandboxes wait: ${unused.join()}`] : []),
    ...(cells.length > CELLS_MAX ? [`cells wait: ${cells.join()}`] : []),
  ]
}

/** Everything of the target that should not be on this host, except what `crowdOf` reports. Must be empty. */
export function leftoversOf(target: Target, slots = slotsOf(target)): string[] {
  const unused = slots.filter((slot) => !target.cells.has(slot))
  const left = slots.filter((slot) => target.spent.has(slot)).map((slot) => `used sandbox ${slot}`)
  if (!isWarm(target) && unused.length > 0) left.push(`sandboxes without a pool ${unused.join()}`)
  const all = childrenOf(target.pid)
  const starters = all.filter((pid) => read(`/proc/${pid}/cmdline`).includes('/host-jail/starter.py'))
  if (starters.length > STARTERS_MAX) left.push(`${starters.length} starters`)
  const processes = all.filter((pid) => !starters.includes(pid))
  const rightful = isContainer(target) ? 0 : slots.length * PROCESSES_OF_A_SLOT
  if (processes.length > rightful)
    left.push(...processes.map((pid) => `process ${pid} ${read(`/proc/${pid}/cmdline`)}`))
  const mounts = lines(read('/proc/self/mounts'))
  left.push(...mounts.filter((line) => line.includes(target.runtimeDir)))
  for (const slot of target.spent)
    left.push(...mounts.filter((line) => line.includes(slot)), ...cgroupsNamed(slot))
  return left
}

/** Cgroup folders of this host that belong to the sandbox, in either version. */
export const cgroupsOf = (ref: SandboxRef): string[] => cgroupsNamed(String(ref.handle['slot']))

/**
 * Searches below the cgroups of this process, which the workers share. They are not always the root cgroups.
 */
const cgroupsNamed = (slot: string): string[] =>
  lines(read('/proc/self/cgroup'))
    .map((line) => line.split(':'))
    .map(
      ([, controllers = '', ...path]) => `/sys/fs/cgroup/${controllers}${path.join(':')}/cofferdam/${slot}`,
    )
    .filter((folder) => existsSync(folder))

/** Resets the peak of a process's memory, so that `peakMemoryOf` starts again. */
export const resetPeakMemory = (pid: number): void =>
  orElse(() => writeFileSync(`/proc/${pid}/clear_refs`, '5'), undefined)
export const memoryOf = (pid: number): number => Number(statusOf(pid, 'VmRSS')) * 1024
export const peakMemoryOf = (pid: number): number => Number(statusOf(pid, 'VmHWM')) * 1024
