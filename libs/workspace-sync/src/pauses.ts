/** Divides long synchronous work, so that it does not hold up the other work of the process. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/**
 * A worker answers probes and renews locks within seconds. Shorter slices would only add turns of the event
 * loop.
 */
const SLICE_MS = 20

/** Returns a function to await between two items of work. It lets others run once a slice is over. */
export function createPauses(): () => Promise<void> {
  let end = performance.now() + SLICE_MS
  return async () => {
    if (performance.now() < end) return
    await nextTurn()
    end = performance.now() + SLICE_MS
  }
}

/** Runs work that yields between its items, with pauses. */
export async function withPauses<T>(work: Generator<void, T>): Promise<T> {
  const pause = createPauses()
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
    await pause()
  }
}

/** Runs work that yields between its items, without pauses. */
export function atOnce<T>(work: Generator<void, T>): T {
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
  }
}
