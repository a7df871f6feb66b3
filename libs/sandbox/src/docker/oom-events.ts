/**
 * The daemon's `oom` events prove that a sandbox ran out of memory if its agent was killed as well. They
 * arrive before the channel closes (20 of 20 times, 20 ms earlier), while `State.OOMKilled` is mostly
 * late. The `die` event limits the wait on a slow daemon.
 *
 * When gVisor's kernel dies, the cgroup can be gone before containerd's shim looks, and there is no event
 * (one in ten on a busy host). Then a death by SIGKILL counts as evidence if this host's kernel has killed
 * for memory since the program began.
 */
import { readFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BackendLogger } from '../deps.ts'
import { LABELS } from './container-options.ts'
import { daemonMessage, type Daemon } from './daemon.ts'

// Number of remembered names; the oldest are dropped. A name is needed only milliseconds after its event.
const REMEMBERED = 1024
// An event is a few hundred bytes; a longer line is not an event.
const LINE_BYTES = 65_536
// Longest delay of an `oom` event after the container's `die` event. Usually `oom` comes 20-60 ms before
// `die`. With gVisor it once came 100 ms after it, and on a busy machine more than 500 ms.
const GRACE_MS = 3_000
// Longest wait for `die`. A busy daemon reports it late.
const DEATH_WITHIN_MS = 5_000
// Docker's exit code: 128 and the signal.
const SIGKILLED = '137'

export interface OomEvents {
  /** Listens and reconnects. Never throws: without events an OOM becomes `sandbox_lost`. */
  listen(): Promise<void>
  /** True if the kernel killed for memory in that container; waits until 3 s after the container's death. */
  happened(containerName: string): Promise<boolean>
  /** A program begins: earlier events of that container do not count. */
  begin(containerName: string): void
  close(): void
}

/**
 * `killsOfHost` returns the OOM kills of the host's kernel since boot. Null for a runtime that loses no
 * event.
 */
export function createOomEvents(
  daemon: Daemon,
  logger: BackendLogger,
  killsOfHost: (() => number) | null,
): OomEvents {
  const seen = new Set<string>()
  const dead = new Set<string>()
  /** The host's kills for memory when a program began, and when its container died of SIGKILL. */
  const killsBefore = new Map<string, number>()
  const killsAtDeath = new Map<string, number>()
  let opening: Promise<Readable | null> | null = null
  let closed = false

  const remember = (names: Set<string>, name: string): void => {
    names.add(name)
    forgetOldest(names)
  }
  const count = (kills: Map<string, number>, name: string): void => {
    if (killsOfHost === null) return
    kills.set(name, killsOfHost())
    forgetOldest(kills)
  }
  const wasKilledByHost = (name: string): boolean =>
    (killsAtDeath.get(name) ?? 0) > (killsBefore.get(name) ?? Infinity)

  const open = async (): Promise<Readable | null> => {
    try {
      const filters = JSON.stringify({ type: ['container'], event: ['oom', 'die'], label: [LABELS.sandbox] })
      // dockerode's types lack this call's abort signal.
      const stream = (await daemon.call('events', () => daemon.docker.getEvents({ filters }))) as Readable
      if (closed) stream.destroy()
      const forget = (): void => {
        opening = null
      }
      stream.on('close', forget)
      stream.on('error', forget)
      onLines(stream, (line) => {
        const event = eventOf(line)
        if (event === null) return
        remember(event.action === 'oom' ? seen : dead, event.name)
        if (event.exitCode === SIGKILLED) count(killsAtDeath, event.name)
      })
      return stream
    } catch (error) {
      opening = null
      logger.warn(
        { reason: daemonMessage(error) },
        'no event stream of the Docker daemon; OOM evidence is the agent’s alone',
      )
      return null
    }
  }

  return {
    async listen() {
      if (closed) return
      opening ??= open()
      await opening
    },
    async happened(containerName) {
      const isListening = opening !== null
      let deadline = performance.now() + (isListening ? DEATH_WITHIN_MS : 0)
      let isDead = false
      while (!seen.has(containerName) && performance.now() < deadline) {
        if (!isDead && dead.has(containerName)) {
          isDead = true
          deadline = performance.now() + GRACE_MS
        }
        if (wasKilledByHost(containerName)) return true
        await sleep(10)
      }
      return seen.delete(containerName)
    },
    begin(containerName) {
      seen.delete(containerName)
      count(killsBefore, containerName)
    },
    close() {
      closed = true
      void opening?.then((stream) => stream?.destroy())
    },
  }
}

/** Kills by this host's kernel since boot. Infinity if it has no counter (no Linux, before 4.13). */
export function countOomKills(): number {
  try {
    return Number(/^oom_kill (\d+)$/m.exec(readFileSync('/proc/vmstat', 'latin1'))?.[1] ?? Infinity)
  } catch {
    return Infinity
  }
}

function forgetOldest(names: Set<string> | Map<string, unknown>): void {
  for (const oldest of names.keys()) {
    if (names.size <= REMEMBERED) break
    names.delete(oldest)
  }
}

function onLines(stream: Readable, take: (line: string) => void): void {
  let rest = ''
  stream.setEncoding('utf8')
  stream.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > LINE_BYTES) rest = ''
    for (const line of lines) take(line)
  })
}

function eventOf(line: string): { action: 'oom' | 'die'; name: string; exitCode: unknown } | null {
  try {
    const event: { Action?: unknown; Actor?: { Attributes?: { name?: unknown; exitCode?: unknown } } } =
      JSON.parse(line)
    const { Action: action } = event
    const { name, exitCode } = event.Actor?.Attributes ?? {}
    return typeof name === 'string' && (action === 'oom' || action === 'die')
      ? { action, name, exitCode }
      : null
  } catch {
    return null
  }
}
