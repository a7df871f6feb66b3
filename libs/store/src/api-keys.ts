/**
 * API keys: `cfd_` and 40 hex digits (160 random bits), shown once, stored as SHA-256. A key is for one
 * tenant or for admins. A revoked key is refused from the next verification on. A tenant's key may be bound
 * to a template, which then applies to every execution that it enqueues. A read-only key sees what its scope
 * allows and changes nothing.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { apiKeyScopeSchema, CofferdamError, parse, type ApiKeyScope } from '@cofferdam/contract'
import { sql, type Kysely, type Transaction } from 'kysely'
import { nameActor, type Author } from './author.ts'
import { sqlState, translating } from './store-errors.ts'
import type { Database } from './tables.ts'

export interface ApiKey {
  id: string
  scope: ApiKeyScope
  /** The template for every execution of this key. Null when the request names it. */
  template_id: string | null
  /** Whether it may only read. */
  read_only: boolean
  label: string
  created_at: string
  revoked_at: string | null
  /** Accurate to the minute. Null when never used. */
  last_used_at: string | null
}

export type VerifiedKey = Pick<ApiKey, 'id' | 'scope' | 'template_id' | 'read_only'>

/** What a new key may be besides its scope. */
export interface NewKey {
  /** Default: not bound to a template. */
  templateId?: string
  /** Default: false. */
  readOnly?: boolean
  /** Who makes it, for the event. Default: the database role. */
  actor?: Author
}

/** Every method throws `store_unavailable`. */
export interface ApiKeys {
  /** Only this answer has the key itself. Throws `not_found` for an unknown tenant or template. */
  create(scope: ApiKeyScope, label: string, options?: NewKey): Promise<{ id: string; key: string }>
  /** Null for an invalid key. */
  verify(key: string): Promise<VerifiedKey | null>
  /** The key of this ID, for a sign-in on the dashboard. Null when it is unknown or was revoked. */
  find(id: string): Promise<VerifiedKey | null>
  /**
   * False when the key is unknown or was already revoked. Throws `conflict` for the last admin key that may
   * change things. One key stays even if several are revoked at once.
   */
  revoke(id: string, actor?: Author): Promise<boolean>
  /** Keys of one tenant, or of all with null. Newest first, at most 1,000. */
  list(tenantId: string | null): Promise<ApiKey[]>
  /** Admin keys, the valid ones first, then the newest first. At most 1,000. */
  admins(): Promise<ApiKey[]>
}

const MAX_LIST = 1000
const KEY = /^cfd_[0-9a-f]{40}$/
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()
const scopeOf = (tenantId: string | null): ApiKeyScope =>
  tenantId === null ? 'admin' : { tenant_id: tenantId }

export function createApiKeys(db: Kysely<Database>): ApiKeys {
  const all = db
    .selectFrom('api_keys')
    .select(['id', 'tenant_id', 'template_id', 'read_only', 'label', 'created_at', 'revoked_at'])
    .select('last_used_at')
    .limit(MAX_LIST)
  const listing = (narrow: (query: typeof all) => typeof all): Promise<ApiKey[]> =>
    translating('the API keys', async () => {
      const rows = await narrow(all).orderBy('created_at', 'desc').execute()
      return rows.map(({ tenant_id, ...row }) => ({ ...row, scope: scopeOf(tenant_id) }))
    })
  return {
    create: async (input, label, { templateId, readOnly = false, actor } = {}) => {
      const scope = parse(apiKeyScopeSchema, input, 'scope')
      const key = `cfd_${randomBytes(20).toString('hex')}`
      return await translating(
        'an API key',
        async () => {
          try {
            const { id } = await db.transaction().execute(async (tx) => {
              if (actor !== undefined) await nameActor(tx, { actor, source: 'api' })
              return tx
                .insertInto('api_keys')
                .values({
                  key_sha256: sha256(key),
                  tenant_id: scope === 'admin' ? null : scope.tenant_id,
                  template_id: templateId ?? null,
                  read_only: readOnly,
                  label: label.slice(0, 200),
                })
                .returning('id')
                .executeTakeFirstOrThrow()
            })
            return { id, key }
          } catch (error) {
            if (sqlState(error) === '23503')
              throw new CofferdamError(
                'not_found',
                templateId === undefined
                  ? 'There is no such tenant.'
                  : 'There is no such tenant, or it has no such template.',
              )
            throw error
          }
        },
        'input',
      )
    },
    verify: async (key) => {
      if (!KEY.test(key)) return null
      const digest = sha256(key)
      return await translating('an API key', async () => {
        const row = await db
          .selectFrom('api_keys')
          .select(['id', 'key_sha256', 'tenant_id', 'template_id', 'read_only', 'revoked_at'])
          .select(sql<boolean>`coalesce(last_used_at < now() - interval '1 minute', true)`.as('is_stale'))
          .where('key_sha256', '=', digest)
          .executeTakeFirst()
        // The index compares digests, so the time depends only on a hash that a caller cannot choose.
        if (row === undefined || !timingSafeEqual(row.key_sha256, digest) || row.revoked_at !== null)
          return null
        if (row.is_stale) await sql`update api_keys set last_used_at = now() where id = ${row.id}`.execute(db)
        const { id, template_id, read_only } = row
        return { id, scope: scopeOf(row.tenant_id), template_id, read_only }
      })
    },
    find: async (id) => {
      if (!UUID.test(id)) return null
      return await translating('an API key', async () => {
        const row = await db
          .selectFrom('api_keys')
          .select(['id', 'tenant_id', 'template_id', 'read_only'])
          .where('id', '=', id)
          .where('revoked_at', 'is', null)
          .executeTakeFirst()
        if (row === undefined) return null
        const { tenant_id, ...facts } = row
        return { ...facts, scope: scopeOf(tenant_id) }
      })
    },
    revoke: async (id, actor) => {
      if (!UUID.test(id)) return false
      return await translating('an API key', async () => {
        const { numAffectedRows } = await db.transaction().execute(async (tx) => {
          if (actor !== undefined) await nameActor(tx, { actor, source: 'api' })
          await keepLastAdmin(tx, id)
          return sql`
            update api_keys set revoked_at = now() where id = ${id} and revoked_at is null`.execute(tx)
        })
        return numAffectedRows === 1n
      })
    },
    list: (tenantId) => listing((all) => (tenantId === null ? all : all.where('tenant_id', '=', tenantId))),
    admins: () =>
      listing((all) => all.where('tenant_id', 'is', null).orderBy(sql`revoked_at is null`, 'desc')),
  }
}

/** Locks the admin keys that may change things, so that two revocations at once see each other. */
async function keepLastAdmin(tx: Transaction<Database>, id: string): Promise<void> {
  const { rows } = await sql<{ id: string }>`
    select id from api_keys where tenant_id is null and not read_only and revoked_at is null
    order by id for update`.execute(tx)
  if (rows.length === 1 && rows[0]?.id === id)
    throw new CofferdamError(
      'conflict',
      'It is the last admin key that may change things. Make another one first: POST /v1/keys.',
    )
}
