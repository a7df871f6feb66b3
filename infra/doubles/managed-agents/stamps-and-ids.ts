/** Timestamps and IDs of the double. */
import { randomBytes } from 'node:crypto'

/**
 * The time now in RFC 3339 with microseconds. A client must echo a heartbeat exactly. One that parses it and
 * prints it with milliseconds sends another value and is refused.
 */
export function stamp(): string {
  const micros = Math.floor((performance.timeOrigin + performance.now()) * 1000)
  const millis = new Date(Math.floor(micros / 1000)).toISOString().slice(0, -1)
  return `${millis}${String(micros % 1000).padStart(3, '0')}Z`
}

/** A new ID such as `work_01f3…`. Clients must treat everything after the prefix as opaque. */
export const newId = (prefix: string): string => `${prefix}_01${randomBytes(11).toString('hex')}`

/** A new secret such as `sk-ant-oat01-…`. */
export const newSecret = (prefix: string): string => prefix + randomBytes(32).toString('base64url')
