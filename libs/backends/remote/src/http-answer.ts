/** Reads HTTP answers of vendors: when to retry, and a body of bounded size. */
import { CofferdamError } from '@cofferdam/contract'

/** `Retry-After` in milliseconds (RFC 9110 §10.2.3; some vendors send fractions); null without a number. */
export function retryAfterMs(header: string | null | undefined): number | null {
  return /^\d{1,6}(\.\d{1,6})?$/.test(header ?? '') ? Number(header) * 1000 : null
}

/** The body of `vendor`'s answer. Throws `protocol_violation` above `maxBytes`. */
export async function boundedBody(
  vendor: string,
  body: AsyncIterable<Uint8Array> | null,
  maxBytes: number,
): Promise<Buffer> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of body ?? []) {
    size += part.length
    if (size > maxBytes)
      throw new CofferdamError('protocol_violation', `${vendor}: an answer above ${maxBytes} bytes.`)
    parts.push(part)
  }
  return Buffer.concat(parts, size)
}
