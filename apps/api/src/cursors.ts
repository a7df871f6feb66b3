/**
 * Pages of lists. A cursor says after which row a page ended. It is encrypted with AES-256-GCM and a key of
 * the fleet that is in Postgres. So it reveals nothing about that row, and works for one list and one tenant.
 *
 *   cursor = base64url(nonce 12 B, tag 16 B, sealed position)      associated data: list, tenant
 *
 * The nonce is derived from list, tenant and position (as in AES-GCM-SIV), so one position always has the
 * same cursor and no nonce seals two texts.
 */
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import { CofferdamError, exitStatusSchema, nameSchema, PROGRAM_KINDS } from '@cofferdam/contract'
import { z } from 'zod'
import {
  agentQuery,
  cursorQuery,
  DEFAULT_PAGE,
  limitQuery,
  namedFields,
  tenantQuery,
  timeQuery,
} from './wire-schemas.ts'

const NONCE_BYTES = 12
const TAG_BYTES = 16

/** What a cursor belongs to. */
export interface CursorOf {
  /** Name of the list, the same for all its pages. */
  list: string
  /** Tenant whose rows the list shows. Null: all tenants. */
  tenantId: string | null
}

export interface Cursors {
  /**
   * The cursor for `position`. Returns null for null, which means the end of the list. Throws
   * `store_unavailable`.
   */
  seal<T extends string | null>(of: CursorOf, position: T): Promise<T>
  /**
   * The position in `cursor`; undefined without a cursor. Throws `invalid_request` for another list or
   * tenant.
   */
  open(of: CursorOf, cursor: string | undefined): Promise<string | undefined>
  /**
   * Reads the page after `cursor`. `read` receives a position and returns the next one in `next_cursor`. The
   * caller of `page` sees only cursors. Throws as `open`.
   */
  page<P extends { next_cursor: string | null }>(
    of: CursorOf,
    cursor: string | undefined,
    read: (after: string | undefined) => Promise<P>,
  ): Promise<P>
}

/** Creates the cursors. `readKey` returns 32 bytes and is called until it has succeeded once. */
export function createCursors(readKey: () => Promise<Uint8Array>): Cursors {
  let known: Promise<Keys> | null = null
  const keys = (): Promise<Keys> => {
    known ??= readKey().then(derived)
    known.catch(() => (known = null))
    return known
  }

  const cursors: Cursors = {
    async seal(of, position) {
      if (position === null) return position
      const { sealing, naming } = await keys()
      const about = aboutOf(of)
      const nonce = createHmac('sha256', naming)
        .update(about)
        .update(position)
        .digest()
        .subarray(0, NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', sealing, nonce).setAAD(about)
      const sealed = Buffer.concat([cipher.update(position, 'utf8'), cipher.final()])
      return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url') as typeof position
    },
    async open(of, cursor) {
      if (cursor === undefined) return undefined
      const { sealing } = await keys()
      const bytes = Buffer.from(cursor, 'base64url')
      const [nonce, tag] = [
        bytes.subarray(0, NONCE_BYTES),
        bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES),
      ]
      if (tag.length !== TAG_BYTES) throw foreign()
      try {
        const decipher = createDecipheriv('aes-256-gcm', sealing, nonce, { authTagLength: TAG_BYTES })
        decipher.setAAD(aboutOf(of)).setAuthTag(tag)
        const sealed = bytes.subarray(NONCE_BYTES + TAG_BYTES)
        return Buffer.concat([decipher.update(sealed), decipher.final()]).toString('utf8')
      } catch {
        throw foreign()
      }
    },
    async page(of, cursor, read) {
      const page = await read(await cursors.open(of, cursor))
      return { ...page, next_cursor: await cursors.seal(of, page.next_cursor) }
    },
  }
  return cursors
}

interface Keys {
  sealing: Buffer
  naming: Buffer
}

const derived = (key: Uint8Array): Keys => ({
  sealing: createHmac('sha256', key).update('seal').digest(),
  naming: createHmac('sha256', key).update('name').digest(),
})

/**
 * Two different lists or tenants never get the same bytes: names contain no NUL, and only tenants have the
 * prefix `tenant `.
 */
const aboutOf = ({ list, tenantId }: CursorOf): Buffer =>
  Buffer.from(`${list}\0${tenantId === null ? 'everybody' : `tenant ${tenantId}`}\0`)

const foreign = (): CofferdamError =>
  new CofferdamError(
    'invalid_request',
    'cursor: expected the cursor of an earlier page of this list, for the same tenant.',
  )

/**
 * Cuts `found` to one page. The store was asked for `limit + 1` rows: if it returned the extra row, another
 * page follows.
 */
export function cutPage<Row>(
  found: readonly Row[],
  limit: number,
  positionOf: (row: Row) => string,
): { rows: Row[]; next_cursor: string | null } {
  const rows = found.slice(0, limit)
  const last = rows.at(-1)
  return { rows, next_cursor: found.length > limit && last !== undefined ? positionOf(last) : null }
}

/** The longest duration that a filter takes: a year. */
const MAX_DURATION_MS = 31_536_000_000

const durationQuery = z
  .string()
  .regex(/^\d{1,11}$/, 'expected whole milliseconds')
  .transform(Number)
  .refine((ms) => ms <= MAX_DURATION_MS, `expected at most ${MAX_DURATION_MS} milliseconds`)

const sessionIdQuery = z
  .string()
  .regex(/^ses_[0-9a-f]{32}$/, 'expected the ID of a session: ses_ and 32 hex digits')
  .meta({
    description: 'Only executions in this sandbox of a session.',
    example: 'ses_01a1fa08335671eda83cd82154726441',
  })

/** The filters that lists of executions and of audit rows share. */
export const pageQuery = z.strictObject({
  tenant_id: tenantQuery,
  agent_id: agentQuery,
  user_id: nameSchema.optional().meta({ description: 'Only those of this user.', example: 'user-7' }),
  run_id: nameSchema.optional().meta({ description: 'Only those of this run.', example: 'run-2026-11-20-1' }),
  template_id: nameSchema.optional().meta({ description: 'Only those of this template.', example: 'strict' }),
  backend: nameSchema.optional().meta({
    description:
      'Only executions that run or ran on this backend. One that has not begun matches if its request ' +
      'names the backend.',
    example: 'docker',
  }),
  trace_id: z
    .string()
    .regex(/^[0-9a-f]{32}$/, 'expected 32 lowercase hex digits')
    .optional()
    .meta({ description: 'Only those of this trace.', example: '4bf92f3577b34da6a3ce929d0e0e4736' }),
  exit_status: exitStatusSchema.optional().meta({ description: 'Only those that ended like this.' }),
  program_kind: z
    .enum(PROGRAM_KINDS)
    .optional()
    .meta({ description: 'Only this kind of program. script: scripts of every language.', example: 'tests' }),
  session_id: sessionIdQuery.optional(),
  min_duration_ms: durationQuery.optional().meta({
    description: 'Only attempts with a duration_ms of at least this, milliseconds.',
    example: '5000',
  }),
  max_duration_ms: durationQuery.optional().meta({
    description: 'Only attempts with a duration_ms of at most this, milliseconds.',
    example: '100',
  }),
  from: timeQuery.optional().meta({ description: 'Only what was enqueued at or after this time.' }),
  to: timeQuery.optional().meta({ description: 'Only what was enqueued before this time.' }),
  limit: limitQuery.optional(),
  cursor: cursorQuery.optional(),
})

/** The store's filter of a list query. `tenantId` null: all tenants. `cursor` is the store's position. */
export const pageFilter = (
  asked: Omit<z.output<typeof pageQuery>, 'cursor'>,
  tenantId: string | null,
  cursor?: string,
) => ({
  tenantId,
  limit: asked.limit ?? DEFAULT_PAGE,
  ...namedFields({
    agentId: asked.agent_id,
    userId: asked.user_id,
    runId: asked.run_id,
    templateId: asked.template_id,
    backend: asked.backend,
    traceId: asked.trace_id,
    exitStatus: asked.exit_status,
    programKind: asked.program_kind,
    sessionId: asked.session_id,
    minDurationMs: asked.min_duration_ms,
    maxDurationMs: asked.max_duration_ms,
    from: asked.from,
    to: asked.to,
    cursor,
  }),
})
