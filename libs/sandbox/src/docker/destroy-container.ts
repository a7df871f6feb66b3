/** Removes a container, and does not say so before the daemon does. */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'
import { daemonMessage, statusOf, type Daemon } from './daemon.ts'
import type { RuntimeKind } from './runtime-kind.ts'

// With 41 spinning processes under a CPU quota a kill took 250 ms; a daemon under load adds seconds.
const GONE_WITHIN_MS = 15_000
const POLL_MS = [5, 10, 20, 40, 80, 160] as const
/**
 * What a hard deadline allows for the end of all processes; an agent that is well takes some milliseconds.
 */
const OWN_END_MS = 250

/**
 * Waits for a container whose agent was just told to end: true once the daemon has removed it by itself
 * (AutoRemove). A kill at the same moment would make the runtime start one more process for what is ending
 * anyway. False when it takes longer or the daemon says anything else.
 */
export async function endedByItself(
  daemon: Daemon,
  name: string,
  withinMs: number = OWN_END_MS,
): Promise<boolean> {
  try {
    const { Error: failed } = (await daemon.call(
      'wait',
      (abortSignal) => daemon.docker.getContainer(name).wait({ condition: 'removed', abortSignal }),
      AbortSignal.timeout(withinMs),
    )) as { Error?: unknown }
    return failed === undefined || failed === null
  } catch (error) {
    return statusOf(error) === 404 && !(await isListed(daemon, name))
  }
}

/**
 * Kills and removes by name; resolves when the daemon knows no such container: true when there was one. A
 * container that exits by itself at the same moment makes the daemon refuse (409 "already in progress", 500
 * "is not running"); then it asks again until it is gone. Throws `internal` when it is still there after 15
 * s.
 */
export async function destroyContainer(
  daemon: Daemon,
  name: string,
  { heedsKillLate }: Pick<RuntimeKind, 'heedsKillLate'>,
): Promise<boolean> {
  const container = daemon.docker.getContainer(name)
  const deadline = performance.now() + GONE_WITHIN_MS
  // What was killed from here may have been removed by the daemon itself (AutoRemove) before it is asked to.
  let existed = heedsKillLate && (await killFromHost(daemon, name))
  for (let turn = 0; ; turn += 1) {
    try {
      await daemon.call('remove', (abortSignal) => container.remove({ force: true, v: true, abortSignal }))
      return true
    } catch (error) {
      const status = statusOf(error)
      if (status === 404 && !(await isListed(daemon, name))) return existed
      if (status !== 404 && status !== 409 && status !== 500) throw error
      if (performance.now() > deadline)
        throw new CofferdamError(
          'internal',
          `The container ${name} cannot be removed: ${daemonMessage(error)}`,
          {
            cause: error,
          },
        )
      existed = existed || status !== 404
      await sleep(POLL_MS[Math.min(turn, POLL_MS.length - 1)])
    }
  }
}

/**
 * The daemon no longer finds a container by its name a moment before its list is without it, which others
 * read.
 */
async function isListed(daemon: Daemon, name: string): Promise<boolean> {
  const filters = { name: [`^/${name}$`] }
  const found = await daemon.call('list', (abortSignal) =>
    daemon.docker.listContainers({ all: true, filters, abortSignal }),
  )
  return found.length > 0
}

/**
 * Sends SIGKILL to a container's first process from this host. gVisor asks the kernel inside to kill, which
 * first goes on with what it runs: a fork bomb grew from 61 to 109 processes in the 3.5 s that the daemon's
 * kill took. Killed from outside, kernel and processes are gone within 250 ms. True when the daemon knows the
 * container, which may be gone by the time this resolves.
 *
 * Does nothing where it cannot be sure: a daemon elsewhere, a worker in a container, a process outside of the
 * container's cgroup.
 */
async function killFromHost(daemon: Daemon, name: string): Promise<boolean> {
  let isThere = false
  try {
    const { Id: id, State: state } = await daemon.call('inspect', (abortSignal) =>
      daemon.docker.getContainer(name).inspect({ abortSignal }),
    )
    isThere = true
    // Looked at right before the signal: a pid is not used again that fast.
    if (state.Pid > 1 && standsIn(state.Pid, id)) process.kill(state.Pid, 'SIGKILL')
  } catch {
    // Gone already, or not ours to signal.
  }
  return isThere
}

/** True for a process of this host whose cgroup is named by the container's whole id. */
const standsIn = (pid: number, id: string): boolean =>
  /^[0-9a-f]{64}$/.test(id) && readFileSync(`/proc/${pid}/cgroup`, 'latin1').includes(id)
