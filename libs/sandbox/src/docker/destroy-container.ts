/** Removes a container. Reports success only when the daemon says that the container is gone. */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'
import { daemonMessage, statusOf, type Daemon } from './daemon.ts'
import type { RuntimeKind } from './runtime-kind.ts'

// With 41 spinning processes under a CPU quota a kill took 250 ms; a busy daemon adds seconds.
const GONE_WITHIN_MS = 15_000
const POLL_MS = [5, 10, 20, 40, 80, 160] as const
/** Time for all processes to end after a hard deadline. A healthy agent needs some milliseconds. */
const OWN_END_MS = 250

/**
 * Waits for a container whose agent was told to end: true once the daemon has removed it (AutoRemove). A kill
 * at the same time would make the runtime start another process for it. False if it takes longer or the
 * daemon answers anything else.
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
 * Kills and removes by name; resolves once the daemon does not know the container, true if there was one. The
 * daemon refuses while a container exits by itself (409 "already in progress", 500 "is not running"); then
 * this asks again. Throws `internal` if it still exists after 15 s.
 */
export async function destroyContainer(
  daemon: Daemon,
  name: string,
  { heedsKillLate }: Pick<RuntimeKind, 'heedsKillLate'>,
): Promise<boolean> {
  const container = daemon.docker.getContainer(name)
  const deadline = performance.now() + GONE_WITHIN_MS
  // The daemon may remove a killed container (AutoRemove) before our call.
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

/** A container disappears by name a moment before it leaves the daemon's list, which other workers read. */
async function isListed(daemon: Daemon, name: string): Promise<boolean> {
  const filters = { name: [`^/${name}$`] }
  const found = await daemon.call('list', (abortSignal) =>
    daemon.docker.listContainers({ all: true, filters, abortSignal }),
  )
  return found.length > 0
}

/**
 * Sends SIGKILL to a container's first process from this host. gVisor's kill asks its inner kernel, which
 * first continues its work: a fork bomb grew from 61 to 109 processes in the 3.5 s of the daemon's kill.
 * Killed from outside, everything is gone within 250 ms. True if the daemon knows the container, which may be
 * gone when this resolves.
 *
 * Does nothing in uncertain cases: a daemon on another host, a worker in a container, a process outside of
 * the container's cgroup.
 */
async function killFromHost(daemon: Daemon, name: string): Promise<boolean> {
  let isThere = false
  try {
    const { Id: id, State: state } = await daemon.call('inspect', (abortSignal) =>
      daemon.docker.getContainer(name).inspect({ abortSignal }),
    )
    isThere = true
    // Check right before the signal, because a pid is not reused that fast.
    if (state.Pid > 1 && standsIn(state.Pid, id)) process.kill(state.Pid, 'SIGKILL')
  } catch {
    // The process is gone already, or we may not signal it.
  }
  return isThere
}

/** Whether a process of this host has a cgroup with the container's full ID. */
const standsIn = (pid: number, id: string): boolean =>
  /^[0-9a-f]{64}$/.test(id) && readFileSync(`/proc/${pid}/cgroup`, 'latin1').includes(id)
