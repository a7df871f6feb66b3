/**
 * Claims the work items of one environment and serves each until it ends.
 *
 *   fewer than max_sessions served? ─ poll ─ item ─ acknowledge ─ serve, while the loop continues
 *         └── otherwise it does not poll: a claimed item cannot be given back
 */
import { setTimeout as after } from 'node:timers/promises'
import { unlessAborted } from '@cofferdam/contract'
import { connectControlPlane, type ControlPlane, type Item } from './control-plane.ts'
import { requireProgram, serveByProgram } from './on-work.ts'
import { serveItem, type ServeDeps, type Serving } from './serve-item.ts'

export interface PolledEnvironment {
  readonly id: string
  readonly serving: ReadonlySet<Serving>
  /** Why the last poll failed; null when it did not. */
  readonly failure: string | null
  /** Resolves when the loop has ended after `signal` aborted. What it serves goes on. */
  readonly ended: Promise<void>
}

export interface PollDeps extends Omit<ServeDeps, 'plane'> {
  workerId: string
  /** Stops polling. */
  signal: AbortSignal
}

/** Pauses after failed polls, as the SDK's poller has them: doubling, with jitter. */
const PAUSE_MS = { first: 1000, most: 60_000 } as const

export function pollEnvironment(deps: PollDeps): PolledEnvironment {
  const serving = new Set<Serving>()
  const state = { failure: null as string | null }
  return {
    id: deps.environment.id,
    serving,
    get failure() {
      return state.failure
    },
    ended: poll(deps, serving, state),
  }
}

async function poll(deps: PollDeps, serving: Set<Serving>, state: { failure: string | null }): Promise<void> {
  const { environment, workerId, logger, signal } = deps
  let plane: ControlPlane | null = null
  let pauseMs: number = PAUSE_MS.first
  while (!signal.aborted)
    try {
      await unlessAborted(freePlace(serving, environment.max_sessions), signal)
      if (environment.on_work !== undefined) await requireProgram(environment.on_work)
      plane ??= await connectControlPlane(environment, workerId, logger)
      const item = await plane.poll(signal)
      state.failure = null
      pauseMs = PAUSE_MS.first
      if (item === null) deps.scaler?.onEmptyPoll(environment.id)
      else await claim(item, { ...deps, plane }, serving)
    } catch (error) {
      if (signal.aborted) return
      // Reads the key again at the next poll, because it may have been replaced.
      plane = null
      state.failure = error instanceof Error ? error.message : String(error)
      logger.warn({ err: error, environment_id: environment.id, pause_ms: pauseMs }, 'polling failed')
      await after(pauseMs * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => undefined)
      pauseMs = Math.min(pauseMs * 2, PAUSE_MS.most)
    }
}

async function freePlace(serving: ReadonlySet<Serving>, most: number): Promise<void> {
  while (serving.size >= most) await Promise.race([...serving].map(({ ended }) => ended))
}

/** Acknowledges at once: an item that nobody acknowledged for 5 s is offered again. */
async function claim(
  item: Item,
  deps: PollDeps & { plane: ControlPlane },
  serving: Set<Serving>,
): Promise<void> {
  const { plane, logger } = deps
  // A drain does not interrupt the claim, because no other dispatcher gets the item until this one stops it.
  const always = new AbortController().signal
  try {
    await plane.ack(item, always)
  } catch (error) {
    logger.warn({ err: error, work_id: item.id }, 'a work item was not acknowledged; it is offered again')
    return
  }
  if (item.data.type !== 'session') {
    await plane.stop(item)
    return
  }
  // The newest item of a session serves it. If the same item came again, the earlier run of it ends when its
  // heartbeat is refused.
  for (const one of serving) if (one.item.data.id === item.data.id && one.item.id !== item.id) one.yield()
  const program = deps.environment.on_work
  const one = program === undefined ? serveItem(item, deps) : serveByProgram(item, program, deps)
  serving.add(one)
  deps.scaler?.onArrival(deps.environment.id)
  void one.ended.finally(() => {
    serving.delete(one)
    deps.scaler?.onSessionEnd(deps.environment.id)
  })
}
