/** A key that signs JWTs with ES256 (RFC 7515, RFC 7518), and its public half as JWK (RFC 7517). */
import { createPrivateKey, generateKeyPairSync, randomUUID, sign } from 'node:crypto'

export interface SigningKey {
  kid: string
  /** What the issuer publishes. */
  jwk: Record<string, unknown>
  /** Signs `claims`. Fields of `header` win over `alg`, `kid` and `typ`. */
  sign(claims: object, header?: object): string
}

const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

export function createSigningKey(): SigningKey {
  const kid = randomUUID()
  const pair = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { format: 'pem', type: 'pkcs8' },
    publicKeyEncoding: { format: 'jwk' },
  })
  const key = createPrivateKey(pair.privateKey)
  return {
    kid,
    jwk: { ...pair.publicKey, kid, alg: 'ES256', use: 'sig' },
    sign(claims, header = {}) {
      const signed = `${part({ alg: 'ES256', kid, typ: 'at+jwt', ...header })}.${part(claims)}`
      const signature = sign('sha256', Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' })
      return `${signed}.${signature.toString('base64url')}`
    },
  }
}
