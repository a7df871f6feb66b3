/** Turns the service's refusals into errors that say whether anything was done. */
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { json, type PoolCall, type TimedAnswer } from './pool-call.ts'

const errorSchema = z.object({
  error: z.object({
    // The code goes into messages, so it must not quote an identifier.
    code: z.string().regex(/^[A-Za-z][A-Za-z.]{0,79}$/),
    message: z.string().optional(),
    target: z.string().max(200).nullish(),
    traceId: z.string().max(200).nullish(),
  }),
})

/** Returns true if the service says that there is no such session. */
export const saysGone = (error: unknown): boolean =>
  error instanceof CofferdamError &&
  (error.details['azure'] === 'SessionWithIdentifierNotFound' || error.details['status'] === 404)

/** Turns a refusal into an error. The service's message is left out, because it may quote the identifier. */
export function refusalOf(
  { status, body, retryAfterMs: waitMs }: TimedAnswer,
  call: PoolCall,
): CofferdamError {
  const parsed = errorSchema.safeParse(json(body))
  const { code, target, traceId } = parsed.success ? parsed.data.error : { code: '' }
  const named = call.identifier ?? call.query?.['identifier']
  const mayTell = (text: string | null | undefined): text is string =>
    text != null && (named === undefined || !text.includes(named))
  const details = {
    status,
    azure: code,
    ...(mayTell(target) ? { target } : {}),
    ...(mayTell(traceId) ? { trace: traceId } : {}),
    ...(waitMs === null ? {} : { retry_after_ms: waitMs }),
    ...(status === 429 ? { full: true } : {}),
  }
  const [ours, words] = classOf(status, code, call)
  return new CofferdamError(ours, `Azure: ${words} (${status}${code === '' ? '' : ` ${code}`}).`, { details })
}

function classOf(
  status: number,
  code: string,
  { identifier, allocates }: PoolCall,
): [CofferdamError['code'], string] {
  const isOfSession = identifier !== undefined
  if (code === 'SessionWithIdentifierNotFound') return ['sandbox_lost', 'the session is gone']
  // The session's time is up, or it is being stopped. The request was not carried out.
  if (isOfSession && (status === 409 || status === 410)) return ['sandbox_lost', 'the session is over']
  // In older documents, 404 for a new session means that the pool is full. For an existing session it means
  // that the session was replaced.
  if (isOfSession && status === 404)
    return allocates === true
      ? ['backend_unavailable', 'the pool has no session free, or is not there']
      : ['sandbox_lost', 'the session is gone']
  if (status === 401) return ['backend_unavailable', 'the pool does not take the token']
  if (status === 403)
    return ['backend_unavailable', 'the role "Azure ContainerApps Session Executor" on the pool is missing']
  if (status === 413) return ['payload_too_large', 'the upload is too large']
  if (status === 429) return ['backend_unavailable', 'the pool has no session free, or throttles']
  if (status >= 500) return ['backend_unavailable', 'the pool failed']
  return ['sandbox_open_failed', 'the pool refuses the call']
}
