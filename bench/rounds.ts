/** Runs variants interleaved: each round runs every variant once, in a random order, so that drift hits all alike. */

export interface Variant {
  name: string
  run(): Promise<unknown>
  /** Not timed. */
  prepare?(): Promise<unknown>
}

/** Milliseconds of each variant per round. A first, unmeasured round warms everything up. Stops early at `deadlineMs`. */
export async function interleave(
  variants: readonly Variant[],
  rounds: number,
  deadlineMs = Number.POSITIVE_INFINITY,
): Promise<Map<string, number[]>> {
  const samples = new Map<string, number[]>(variants.map((v) => [v.name, []]))
  for (const variant of variants) await variant.run()
  for (let i = 0; i < rounds && Date.now() < deadlineMs; i++)
    for (const variant of shuffled(variants)) {
      await variant.prepare?.()
      const started = performance.now()
      await variant.run()
      samples.get(variant.name)?.push(performance.now() - started)
    }
  return samples
}

/** Keeps `concurrency` calls of `run` in flight for `durationMs`, one in each lane; the rate is completed calls per second. */
export async function closedLoop(
  run: (lane: number) => Promise<unknown>,
  concurrency: number,
  durationMs: number,
): Promise<number> {
  const started = performance.now()
  const end = started + durationMs
  let completed = 0
  await Promise.all(
    Array.from({ length: concurrency }, async (_, lane) => {
      while (performance.now() < end) {
        await run(lane)
        completed++
      }
    }),
  )
  return (completed * 1000) / (performance.now() - started)
}

function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, key: Math.random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ item }) => item)
}
