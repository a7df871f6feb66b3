/**
 * Waits for ARM operations that take longer than one call. The first answer names a URL to poll:
 * `Azure-AsyncOperation` answers with a status in its body, `Location` answers 202 until the operation is
 * over.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { ArmFailure, askedPauseMs, type ArmAnswer, type ArmClient } from './arm-client.ts'

const statusSchema = z.object({
  status: z.string(),
  error: z.object({ code: z.string(), message: z.string() }).optional(),
})
const FAILED = new Set(['failed', 'canceled'])

/**
 * Waits until the operation of `started` is over. Calls `onPoll` before each poll; it may throw to stop the
 * waiting. Throws ArmFailure if the operation failed, or with `OperationTimeout` if it takes too long. How it
 * ends is unknown then.
 */
export async function untilOver(
  client: ArmClient,
  what: string,
  started: ArmAnswer,
  signal: AbortSignal,
  onPoll: () => Promise<void>,
): Promise<void> {
  let { headers } = started
  const asyncUrl = headers.get('azure-asyncoperation')
  let url = asyncUrl ?? headers.get('location')
  if (url === null || started.status === 204 || started.status === 404) return
  const endMs = performance.now() + client.settings.operationMs
  while (performance.now() < endMs) {
    await sleep(askedPauseMs(headers) ?? client.settings.retryMs, undefined, { signal })
    await onPoll()
    const answer = await client.follow(url, signal)
    headers = answer.headers
    if (asyncUrl === null) {
      if (answer.status !== 202) return
      url = headers.get('location') ?? url
      continue
    }
    const { status, error } = statusSchema.parse(answer.body ?? { status: 'Succeeded' })
    if (status.toLowerCase() === 'succeeded') return
    if (FAILED.has(status.toLowerCase()))
      throw new ArmFailure(what, 200, error?.code ?? status, error?.message ?? 'the operation failed')
  }
  throw new ArmFailure(what, 0, 'OperationTimeout', `not over after ${client.settings.operationMs} ms`)
}
