/**
 * SIGKILL for a container's first process from this host, past the daemon. A user-space kernel is asked by its runtime to kill what
 * runs inside, and goes on running that until it gets to it: a fork bomb grew from 61 to 109 processes in the 3.5 s that the request took
 * (11 s on a busy host). Killed from outside, kernel and processes are gone within 250 ms.
 */
import { readFileSync } from 'node:fs'
import type { Daemon } from './daemon.ts'

/**
 * Does nothing where it cannot know: a daemon elsewhere, a worker in a container of its own, a process that is not in the container's
 * cgroup. The daemon is asked for the container's end all the same. True when there is such a container: it may be gone by that time.
 */
export async function killFromHost(daemon: Daemon, name: string): Promise<boolean> {
  let isThere = false
  try {
    const { Id: id, State: state } = await daemon.call('inspect', (abortSignal) =>
      daemon.docker.getContainer(name).inspect({ abortSignal }),
    )
    isThere = true
    // Looked at right before the signal, with nothing in between: a pid is not used again that fast.
    if (state.Pid > 1 && standsIn(state.Pid, id)) process.kill(state.Pid, 'SIGKILL')
  } catch {
    // Gone already, or not ours to signal.
  }
  return isThere
}

/** True for a process of this host whose cgroup is named by the container's whole id. */
const standsIn = (pid: number, id: string): boolean =>
  /^[0-9a-f]{64}$/.test(id) && readFileSync(`/proc/${pid}/cgroup`, 'latin1').includes(id)
