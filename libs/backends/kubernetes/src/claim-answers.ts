/** Reads the API server's answers about claims. */
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { claimSchema, type Claim } from './claim-state.ts'
import type { KubeAnswer } from './kube-api.ts'

const statusSchema = z.object({ reason: z.string().nullish(), message: z.string().nullish() })

/** Returns the claim in an answer. Throws `refused` for an error status. */
export function claimIn(answer: KubeAnswer): Claim {
  if (answer.status >= 300) throw refused(answer)
  return parsed(claimSchema, answer, 'SandboxClaim')
}

/** Parses the body of an answer. Throws `protocol_violation`. */
export function parsed<Schema extends z.ZodType>(
  schema: Schema,
  { body }: KubeAnswer,
  what: string,
): z.output<Schema> {
  const found = schema.safeParse(body)
  if (!found.success)
    throw new CofferdamError('protocol_violation', `Kubernetes: an answer that is no ${what}.`, {
      cause: found.error,
    })
  return found.data
}

/** Turns a refusal into an error. Its details have `full` if a retry can work once other sandboxes end. */
export function refused({ status, body, retryAfterMs }: KubeAnswer): CofferdamError {
  const said = statusSchema.safeParse(body)
  const reason = said.success ? (said.data.message ?? said.data.reason ?? '') : ''
  const code =
    status === 401 || status === 403 || status === 429 || status >= 500
      ? 'backend_unavailable'
      : 'sandbox_open_failed'
  // API priority and fairness answers 429. A ResourceQuota that counts claims answers 403.
  const isFull = status === 429 || (status === 403 && reason.includes('exceeded quota'))
  return new CofferdamError(code, `Kubernetes answered ${status}: ${reason.slice(0, 300)}`, {
    details: {
      status,
      ...(retryAfterMs === null ? {} : { retry_after_ms: retryAfterMs }),
      ...(isFull ? { full: true } : {}),
    },
  })
}
