/**
 * Keys of sessions' pods. Whoever has a pod's key can take over its agent between two turns. A key is made
 * from a secret that only workers have, and the claim's name, which is never reused. Neither the registry nor
 * the cluster stores it.
 */
import { createHmac } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { CofferdamError } from '@cofferdam/contract'

const SECRET_MIN = 32

/** The 32-byte key of a claim's pod, by the current secret. Throws `backend_unavailable`. */
export async function sessionKey(secretFile: string, namespace: string, claim: string): Promise<Buffer> {
  const secret = await readFile(secretFile).catch((error: unknown) => {
    throw new CofferdamError('backend_unavailable', `Kubernetes: ${secretFile} cannot be read.`, {
      cause: error,
    })
  })
  if (secret.length < SECRET_MIN)
    throw new CofferdamError(
      'backend_unavailable',
      `Kubernetes: ${secretFile} holds less than ${SECRET_MIN} bytes.`,
    )
  return createHmac('sha256', secret)
    .update(JSON.stringify(['session', namespace, claim]))
    .digest()
}
