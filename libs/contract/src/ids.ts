/**
 * IDs have a prefix that says what they name. The rest is a UUIDv7 (RFC 9562 §5.7) in 32 hex digits. Its
 * first 48 bits are the creation time in milliseconds, so IDs sort by age and the audit row's partition
 * follows from the ID.
 *
 * The ID of an execution in a cell other than 0 is a UUIDv8 (RFC 9562 §5.8). It has the same time, and the
 * number of the cell in place of 12 random bits. So the cell follows from the ID. IDs from before there were
 * cells belong to cell 0.
 */
import { randomFillSync } from 'node:crypto'
import { z } from 'zod'

export type ExecutionId = `exe_${string}`
export type SandboxId = `sbx_${string}`
export type SessionId = `ses_${string}`
export type WorkerId = `wrk_${string}`

/** The highest number of a cell. */
export const CELL_MAX = 0xfff

/**
 * Matches `<prefix>_` and 32 hex digits of a UUIDv7 or UUIDv8. Only the type says that the text has the
 * prefix: a transform would hide from the OpenAPI document that it is a text.
 */
export const idSchema = <Prefix extends string>(prefix: Prefix): z.ZodType<`${Prefix}_${string}`, string> =>
  z
    .string()
    .regex(
      new RegExp(`^${prefix}_[0-9a-f]{12}[78][0-9a-f]{3}[89ab][0-9a-f]{15}$`),
      `expected ${prefix}_ followed by 32 hex digits of a UUIDv7 or UUIDv8`,
    )
    .meta({ example: `${prefix}_01a1fa08335671eda83cd82154726441` }) as unknown as z.ZodType<
    `${Prefix}_${string}`,
    string
  >

export const executionIdSchema = idSchema('exe')

/** Index of the UUID's version digit in an ID of three letters, an underscore and 32 digits. */
const VERSION_AT = 16

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

/** The ID of a new execution in a cell. */
export function newExecutionId(nowMs?: number, cell = 0): ExecutionId {
  const hex = uuidv7Hex(nowMs)
  if (cell === 0) return `exe_${hex}`
  return `exe_${hex.slice(0, 12)}8${cell.toString(16).padStart(3, '0')}${hex.slice(16)}`
}

/** The number of the cell in which an execution lives. */
export const cellOfId = (id: ExecutionId): number =>
  id[VERSION_AT] === '8' ? Number.parseInt(id.slice(VERSION_AT + 1, VERSION_AT + 4), 16) : 0

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
