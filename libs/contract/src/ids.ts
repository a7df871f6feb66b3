/**
 * IDs have a prefix that says what they name. The rest is a UUIDv7 (RFC 9562 §5.7) in 32 hex digits. Its
 * first 48 bits are the creation time in milliseconds, so IDs sort by age and the audit row's partition
 * follows from the ID.
 */
import { randomFillSync } from 'node:crypto'
import { z } from 'zod'

export type ExecutionId = `exe_${string}`
export type SandboxId = `sbx_${string}`
export type SessionId = `ses_${string}`
export type WorkerId = `wrk_${string}`

/**
 * Matches `<prefix>_` and 32 hex digits of a UUIDv7. Only the type says that the text has the prefix: a
 * transform would hide from the OpenAPI document that it is a text.
 */
export const idSchema = <Prefix extends string>(prefix: Prefix): z.ZodType<`${Prefix}_${string}`, string> =>
  z
    .string()
    .regex(
      new RegExp(`^${prefix}_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$`),
      `expected ${prefix}_ followed by 32 hex digits of a UUIDv7`,
    )
    .meta({ example: `${prefix}_01a1fa08335671eda83cd82154726441` }) as unknown as z.ZodType<
    `${Prefix}_${string}`,
    string
  >

export const executionIdSchema = idSchema('exe')

/** Random bytes are drawn for 256 IDs at a time, because a draw costs ten times as much as an ID. */
const entropy = Buffer.alloc(256 * 16)
let entropyUsed = entropy.length

/** Returns 32 hex digits of a UUIDv7. `nowMs` defaults to the wall clock. */
export function uuidv7Hex(nowMs: number = Date.now()): string {
  if (entropyUsed === entropy.length) {
    randomFillSync(entropy)
    entropyUsed = 0
  }
  const bytes = entropy.subarray(entropyUsed, (entropyUsed += 16))
  bytes.writeUIntBE(nowMs, 0, 6)
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f)
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f)
  return bytes.toString('hex')
}

export const newExecutionId = (nowMs?: number): ExecutionId => `exe_${uuidv7Hex(nowMs)}`
export const newSandboxId = (nowMs?: number): SandboxId => `sbx_${uuidv7Hex(nowMs)}`
export const newSessionId = (nowMs?: number): SessionId => `ses_${uuidv7Hex(nowMs)}`
/**
 * The worker ID contains `fleet` (12 hex digits), so that a worker can distinguish leftovers of its own fleet
 * from those of another fleet on the same host.
 */
export const newWorkerId = (fleet: string, nowMs?: number): WorkerId => `wrk_${fleet}_${uuidv7Hex(nowMs)}`
export const fleetOf = (id: WorkerId): string => id.slice(4, 16)

/** Milliseconds since the epoch at which an ID was created. */
export function idTimeMs(id: ExecutionId | SandboxId): number {
  return Number.parseInt(id.slice(4, 16), 16)
}

/** The dashed UUID form of an ID, as Postgres stores it. */
export function idToUuid(id: ExecutionId): string {
  const h = id.slice(4)
  return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`
}

export const uuidToExecutionId = (uuid: string): ExecutionId => `exe_${uuid.replaceAll('-', '')}`
