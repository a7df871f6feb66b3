/** Timestamps and IDs of the double. */
import { randomBytes } from 'node:crypto'

let lastMicros = 0

/**
 * The time now in RFC 3339 with microseconds. No two calls of this process get the same value, so that an
 * echoed heartbeat names exactly one beat, and a client that parses and prints it again is found out.
 */
export function stamp(): string {
  lastMicros = Math.max(lastMicros + 1, Date.now() * 1000)
  const millis = new Date(Math.floor(lastMicros / 1000)).toISOString().slice(0, -1)
  return `${millis}${String(lastMicros % 1000).padStart(3, '0')}Z`
}

/** A new ID such as `work_01f3…`. Clients must treat everything after the prefix as opaque. */
export const newId = (prefix: string): string => `${prefix}_01${randomBytes(11).toString('hex')}`

/** A new secret such as `sk-ant-oat01-…`. */
export const newSecret = (prefix: string): string => prefix + randomBytes(32).toString('base64url')
