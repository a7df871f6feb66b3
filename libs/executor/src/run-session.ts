/**
 * The session that an execution was given for its run, without asking for it: where it cannot be had, the
 * execution runs in a sandbox of its own instead of being refused.
 */
import { hasRunSession, withoutSession, type ExecutionRequest, type Sandbox } from '@cofferdam/contract'
import type { Attempt } from './attempt.ts'
import { ProvisioningFailure } from './provisioning-failure.ts'

/**
 * What `acquire` opens in the session of the run; where no backend gives it (other limits, no sessions, no
 * place for one), what it opens without, with a notice of why. Rejects as `acquire` does without the
 * session.
 */
export async function inRunSessionIfItCan<T>(
  attempt: Attempt,
  acquire: (attempt: Attempt) => Promise<T>,
): Promise<T> {
  try {
    return await acquire(attempt)
  } catch (error) {
    if (!(error instanceof ProvisioningFailure)) throw error
    const opened = await acquire({ ...attempt, request: withoutSession(attempt.request) })
    attempt.onNotice?.(`Runs in a sandbox of its own, not in the session of its run: ${error.message}`)
    return opened
  }
}

/** Whether a request that was given the session of its run got a sandbox of its own. */
export const leftRunSession = (request: ExecutionRequest, { session }: Pick<Sandbox, 'session'>): boolean =>
  session === null && hasRunSession(request)
