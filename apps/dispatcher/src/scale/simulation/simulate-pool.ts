/**
 * A warm pool of Agent Sandbox over a day. A session takes a ready spare, and the pool replaces it at once.
 * Without a ready spare it waits for a pod of its own. Figures are those of
 * docs/operations/dispatcher-scaling.md.
 */
import { createRandom, type Scenario, type Session } from './day.ts'

/** Adoption of a ready spare. */
const WARM_SECONDS = 0.1
/**
 * The fastest start of a replacement, and of a pod for a session that found none. The slowest takes 10 s
 * more.
 */
const REFILL_SECONDS = 10
const COLD_SECONDS = 11
/** With this many starts at once, each takes 41–50 s. */
const CROWD = 75
const CROWDED_SECONDS = 41

export interface PoolView {
  nowSeconds: number
  /** Sessions that wait in the queue. */
  depth: number
  /** Sessions that run. In GKE's sample this is `pending`, because the sample acknowledges no items. */
  running: number
  replicas: number
}

/** Sets a pool's `replicas`. One instance serves one day. */
export interface Policy {
  everySeconds: number
  replicas(view: PoolView): number
  arrived?(nowSeconds: number): void
  coldStart?(tookSeconds: number, nowSeconds: number): void
}

export interface Outcome {
  sessions: number
  coldStarts: number
  /** Seconds from arrival to a ready sandbox, in order of size. */
  waits: Float64Array
  /** Seconds of unclaimed pods, starting or ready. */
  idlePodSeconds: number
  /** Seconds of all pods. */
  podSeconds: number
}

interface Start {
  endsAt: number
  took: number
  isSpare: boolean
}

/** Plays the day. The same arguments give the same outcome. */
export function simulatePool(
  sessions: readonly Session[],
  policy: Policy,
  places: Scenario['places'],
  seed: number,
): Outcome {
  const random = createRandom(seed)
  let now = 0
  let replicas = 2
  let ready = 2
  /** Pods that are starting, in the order in which they become ready. */
  const starts: Start[] = []
  let startingSpares = 0
  const ends: number[] = []
  const queue: Session[] = []
  const waits: number[] = []
  let [coldStarts, idlePodSeconds, busyPodSeconds, arrived, stepAt] = [0, 0, 0, 0, 0]

  function start(isSpare: boolean): number {
    const least = starts.length >= CROWD ? CROWDED_SECONDS : isSpare ? REFILL_SECONDS : COLD_SECONDS
    const took = least + random() * (least === CROWDED_SECONDS ? 9 : 10)
    insert(starts, { endsAt: now + took, took, isSpare }, ({ endsAt }) => endsAt)
    if (isSpare) startingSpares += 1
    return took
  }

  function reconcile(): void {
    while (ready + startingSpares < replicas) start(true)
    while (ready + startingSpares > replicas) {
      const youngest = starts.findLastIndex(({ isSpare }) => isSpare)
      if (youngest === -1) ready -= 1
      else {
        starts.splice(youngest, 1)
        startingSpares -= 1
      }
    }
  }

  function serve({ atSeconds, lastsSeconds }: Session): void {
    policy.arrived?.(now)
    const isWarm = ready > 0
    if (isWarm) ready -= 1
    else coldStarts += 1
    const opens = isWarm ? WARM_SECONDS : start(false)
    waits.push(now + opens - atSeconds)
    busyPodSeconds += opens + lastsSeconds
    insert(ends, now + opens + lastsSeconds, (end) => end)
    reconcile()
  }

  function podStarted({ took, isSpare }: Start): void {
    if (!isSpare) return policy.coldStart?.(took, now)
    startingSpares -= 1
    ready += 1
  }

  for (;;) {
    const arrival = sessions[arrived]
    const next = Math.min(
      arrival?.atSeconds ?? Infinity,
      starts[0]?.endsAt ?? Infinity,
      ends[0] ?? Infinity,
      stepAt,
    )
    // The day ends with the last session, so that every session is counted.
    if (arrival === undefined && queue.length === 0 && ends.length === 0) break
    idlePodSeconds += (ready + startingSpares) * (next - now)
    now = next
    if (starts[0]?.endsAt === next) podStarted(starts.shift() as Start)
    else if (ends[0] === next) {
      ends.shift()
      const waiting = queue.shift()
      if (waiting !== undefined) serve(waiting)
    } else if (arrival?.atSeconds === next) {
      arrived += 1
      if (ends.length < places) serve(arrival)
      else queue.push(arrival)
    } else {
      replicas = policy.replicas({ nowSeconds: now, depth: queue.length, running: ends.length, replicas })
      stepAt = now + policy.everySeconds
      reconcile()
    }
  }
  const podSeconds = idlePodSeconds + busyPodSeconds
  return {
    sessions: waits.length,
    coldStarts,
    waits: Float64Array.from(waits).sort(),
    idlePodSeconds,
    podSeconds,
  }
}

/** Inserts into an array that is in order. */
function insert<T>(into: T[], item: T, keyOf: (item: T) => number): void {
  const key = keyOf(item)
  let at = into.length
  while (at > 0 && keyOf(into[at - 1] as T) > key) at -= 1
  into.splice(at, 0, item)
}
