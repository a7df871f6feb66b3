/** Executions that are answered before they end: the service may answer `Running` although we wait. */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import type { PoolApi } from './pool-api.ts'
import { json, LostAnswer, type PoolCall } from './pool-call.ts'

/** The first pause between two polls. Each doubles. */
const PAUSE_MS = 50
const LONGEST_PAUSE_MS = 2000

const runningSchema = z.object({
  status: z.enum(['NotStarted', 'Running']),
  /** The ID becomes part of a path. */
  id: z.string().regex(/^[\w-]{1,100}$/),
})

/**
 * Returns the final answer of an execution: `body`, or a later one if it still runs. Throws `LostAnswer` if
 * none comes within `call.timeoutMs`, or the reason of `call.signal`.
 */
export async function outcomeOf(
  api: Pick<PoolApi, 'call'>,
  body: Buffer,
  call: Omit<PoolCall, 'method' | 'path'> & { timeoutMs: number },
): Promise<Buffer> {
  const { timeoutMs, ...more } = call
  const untilMs = performance.now() + timeoutMs
  let latest = body
  for (let waitMs = PAUSE_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_PAUSE_MS)) {
    const running = runningSchema.safeParse(json(latest))
    if (!running.success) return latest
    if (performance.now() > untilMs) throw new LostAnswer('an execution that does not end')
    try {
      await sleep(waitMs, undefined, more.signal === undefined ? {} : { signal: more.signal })
      const path = `/executions/${running.data.id}`
      latest = (await api.call({ ...more, method: 'GET', path, isRepeatable: true })).body
    } catch (error) {
      more.signal?.throwIfAborted()
      // The execution has started, whatever this call answers.
      throw new LostAnswer(error)
    }
  }
}
