/**
 * Keys of sessions' pods: whoever has a pod's key may take its agent over between two turns. Made from a secret that only workers
 * have and the claim's name, which is never used twice; neither registry nor cluster holds one.
 */
import { createHmac } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { CofferdamError } from '@cofferdam/contract'

const SECRET_MIN = 32

/** 32 bytes for a claim's pod. Reads the secret each time, for it is asked rarely and may be replaced. Throws `backend_unavailable`. */
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
