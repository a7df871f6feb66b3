/** Signatures as Standard Webhooks 1.0 has them: HMAC-SHA256 over `id.timestamp.body`, in base64 behind `v1,`. */
import { createHmac } from 'node:crypto'

/** Headers of one delivery. Several keys sign side by side while a secret is changed over. */
export function signedHeaders(
  keys: readonly Uint8Array[],
  message: { id: string; atMs: number; body: string },
): Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string> {
  const timestamp = String(Math.floor(message.atMs / 1000))
  const text = `${message.id}.${timestamp}.${message.body}`
  const signatures = keys.map((key) => `v1,${createHmac('sha256', key).update(text).digest('base64')}`)
  return {
    'webhook-id': message.id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  }
}
