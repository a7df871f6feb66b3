/** Runs an execution only once, even if it is requested several times or by several dispatchers. */
import { setTimeout as after } from 'node:timers/promises'
import type { Client } from '@cofferdam/client'
import {
  CofferdamError,
  executionIdSchema,
  isCofferdamError,
  type ExecutionId,
  type ExecutionRequestInput,
  type ExecutionResult,
} from '@cofferdam/contract'

/** Redis restarts or fails over within seconds, and the SDK gives a call up after 120 s. */
const REDIS_PAUSE_MS = 500
/** Duration of one wait. Waits are repeated until there is a result or the signal aborts. */
const WAIT_MS = 300_000

/**
 * Accepts the request, or finds the execution that was accepted earlier for its `idempotency_key`. That
 * request may differ if the dispatcher's configuration has changed since. A tool call must not run again even
 * then.
 */
export async function acceptOnce(
  client: Client,
  request: ExecutionRequestInput,
  signal: AbortSignal,
): Promise<ExecutionId> {
  return await whileRedisIsAway(signal, async () => {
    try {
      return (await client.enqueue(request)).execution_id
    } catch (error) {
      const first =
        isCofferdamError(error) && error.code === 'idempotency_conflict'
          ? error.details?.['execution_id']
          : undefined
      const known = executionIdSchema.safeParse(first)
      if (!known.success) throw error
      return known.data
    }
  })
}

/** The result. Rejects with the signal's reason. */
export async function resultOf(
  client: Client,
  id: ExecutionId,
  signal: AbortSignal,
): Promise<ExecutionResult> {
  for (;;) {
    const result = await whileRedisIsAway(signal, () => client.wait(id, { timeoutMs: WAIT_MS, signal }))
    if (result !== null) return result
  }
}

/** Repeats `call` while Redis does not answer. Enqueueing and waiting, as above, are safe to repeat. */
async function whileRedisIsAway<T>(signal: AbortSignal, call: () => Promise<T>): Promise<T> {
  for (;;) {
    signal.throwIfAborted()
    try {
      return await call()
    } catch (error) {
      if (!isCofferdamError(error) || error.code !== 'queue_unavailable') throw error
    }
    await after(REDIS_PAUSE_MS, undefined, { signal })
  }
}

/** Runs an execution that may run twice. Throws `wait_timeout` when it did not end in `ms`. */
export async function runWithin(
  client: Client,
  request: ExecutionRequestInput,
  ms: number,
): Promise<ExecutionResult> {
  const signal = AbortSignal.timeout(ms)
  try {
    return await resultOf(client, await acceptOnce(client, request, signal), signal)
  } catch (error) {
    throw signal.aborted ? new CofferdamError('wait_timeout', undefined, { cause: error }) : error
  }
}
