/** With Redis away BullMQ waits for it for ever; a worker that stops must not. */

/** Long enough for a round trip to a slow server, short beside a drain. */
const CLOSE_MS = 2000

/** Resolves when `work` has settled either way, or after two seconds: what is under way then is done again elsewhere. */
export async function closeWithin(work: Promise<unknown>): Promise<void> {
  const late = Promise.withResolvers<void>()
  const timer = setTimeout(late.resolve, CLOSE_MS)
  try {
    await Promise.race([
      work.then(
        () => undefined,
        () => undefined,
      ),
      late.promise,
    ])
  } finally {
    clearTimeout(timer)
  }
}
