/** Reads a session from Redis, for the API and the reaper. */
import {
  executionIdSchema,
  CofferdamError,
  isCofferdamError,
  SESSION_SCOPES,
  type SessionEntry,
  type SessionInfo,
  type SessionName,
  type SessionId,
  type WorkerId,
} from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { z } from 'zod'
import { keys } from './keys.ts'
import type { Calls } from './scripts.ts'

/** By contract a handle is below 1 KiB. The rest is IDs and numbers. */
const MAX_ENTRY_BYTES = 2048

const entrySchema = z.object({
  sessionId: z.string().transform((id) => id as SessionId),
  scope: z.enum(SESSION_SCOPES),
  epoch: z.number(),
  handle: z.record(z.string(), z.union([z.string(), z.number()])),
  createdAtMs: z.number(),
  usedAtMs: z.number(),
  executionId: executionIdSchema.exactOptional(),
  turn: z.union([executionIdSchema, z.literal('ending')]).exactOptional(),
  runs: z.int().nonnegative().exactOptional(),
  idleAtMs: z.number(),
  expiresAtMs: z.number().nullable(),
})

/** Encodes an entry. Throws `internal` when it is too large. */
export function entryText(entry: SessionEntry): string {
  const text = JSON.stringify(entry)
  if (Buffer.byteLength(text) > MAX_ENTRY_BYTES)
    throw new CofferdamError('internal', `A session's entry is longer than ${MAX_ENTRY_BYTES} bytes.`)
  return text
}

/** Decodes an entry. Null for ''. Throws `internal` for an entry of unknown form. */
export function readEntry(text: string): SessionEntry | null {
  if (text === '') return null
  const found = entrySchema.safeParse(JSON.parse(text))
  if (found.success) return found.data
  throw new CofferdamError('internal', 'A session has an entry of unknown form.', { cause: found.error })
}

function ownEntry(text: string): SessionEntry | null {
  try {
    return readEntry(text)
  } catch (error) {
    if (isCofferdamError(error) && error.code === 'internal') return null
    throw error
  }
}

/** When the session expires or may be ended. */
export const deadlineOf = (entry: SessionEntry): number =>
  Math.min(entry.idleAtMs, entry.expiresAtMs ?? Infinity)

export interface SessionRecord {
  info: SessionInfo | null
  /**
   * The session's entry is from a release with another format. This release neither shows nor changes the
   * entry.
   */
  isForeign: boolean
  /** End of its current lease, in milliseconds. Null while nobody holds it. */
  heldUntilMs: number | null
}

/** Reads one session at the time `nowMs` (Redis clock). */
export async function readSession(
  redis: Redis,
  calls: Calls,
  name: SessionName,
  nowMs: number,
): Promise<SessionRecord> {
  const [entryJson, holder, till, owner, busy] = await calls.bounded(
    redis.hmget(keys.session(name), 'entry', 'holder', 'till', 'owner', 'busy'),
    'reading a session',
  )
  const heldUntilMs = typeof holder === 'string' && Number(till) > nowMs ? Number(till) : null
  const entry = ownEntry(entryJson ?? '')
  if (entry === null) return { info: null, isForeign: (entryJson ?? '') !== '', heldUntilMs }
  const bound = (owner ?? null) as WorkerId | null
  const user = heldUntilMs !== null ? (holder as WorkerId) : busy === '1' ? bound : null
  return { info: { ...name, ...entry, holder: user, owner: bound }, isForeign: false, heldUntilMs }
}

/** The server's clock in milliseconds. */
export async function serverNowMs(redis: Redis, calls: Calls): Promise<number> {
  const [seconds, micros] = await calls.bounded(redis.time(), 'TIME')
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
}
