/** The sessions of a synthetic day: Poisson arrivals along a daily curve, and bursts. */

const DAY_SECONDS = 86_400

export interface Scenario {
  /** Sessions per second at 14:00. Before 7:00 and after 21:00 there are a tenth as many. */
  peakPerSecond: number
  /** Bursts between 7:00 and 21:00, each with this many sessions within a minute. */
  bursts: { count: number; least: number; most: number }
  /** Mean time that a session holds its sandbox, 60 s of which it is idle (`maxIdleMs` of the SDK). */
  meanSeconds: number
  /** Sessions that the dispatcher serves at once. Others wait in the queue: `depth`. */
  places: number
}

/** About 4,200 sessions, a tenth of them in bursts: a class that begins, a build that starts agents. */
export const USUAL_DAY: Scenario = {
  peakPerSecond: 0.1,
  bursts: { count: 12, least: 20, most: 60 },
  meanSeconds: 240,
  places: 150,
}

export interface Session {
  atSeconds: number
  /** How long it holds its sandbox. */
  lastsSeconds: number
}

/** Mulberry32: the same numbers from 0 to 1 for the same seed, on any machine. */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Returns the day's sessions in order of arrival. */
export function sessionsOf(scenario: Scenario, seed: number): Session[] {
  const random = createRandom(seed)
  const exponential = (mean: number): number => -Math.log(1 - random()) * mean
  const lasts = (): number => 60 + exponential(scenario.meanSeconds - 60)
  const { peakPerSecond: peak, bursts } = scenario
  const sessions: Session[] = []
  // Thinning: draws arrivals at the peak rate. Keeps each with a probability of its hour's rate over the peak
  // rate.
  for (let at = exponential(1 / peak); at < DAY_SECONDS; at += exponential(1 / peak))
    if (random() < shareAt(at / 3600)) sessions.push({ atSeconds: at, lastsSeconds: lasts() })
  for (let burst = 0; burst < bursts.count; burst += 1) {
    const from = (7 + random() * 14) * 3600
    const size = bursts.least + Math.round(random() * (bursts.most - bursts.least))
    for (let i = 0; i < size; i += 1)
      sessions.push({ atSeconds: from + random() * 60, lastsSeconds: lasts() })
  }
  return sessions.toSorted((a, b) => a.atSeconds - b.atSeconds)
}

const shareAt = (hour: number): number =>
  hour < 7 || hour > 21 ? 0.1 : 0.1 + 0.9 * Math.sin(((hour - 7) / 14) * Math.PI)
