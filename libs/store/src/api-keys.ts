/**
 * API keys: `cfd_` and 40 hex digits (160 random bits), shown once, stored as SHA-256. A key is for one
 * tenant or for admins. A revoked key is refused from the next verification on. A tenant's key may be bound
 * to a template, which then applies to every execution that it enqueues.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { apiKeyScopeSchema, CofferdamError, parse, type ApiKeyScope } from '@cofferdam/contract'
import { sql, type Kysely } from 'kysely'
import { sqlState, translating } from './store-errors.ts'
import type { Database } from './tables.ts'

export interface ApiKey {
  id: string
  scope: ApiKeyScope
  /** The template for every execution of this key. Null when the request names it. */
  template_id: string | null
  label: string
  created_at: string
  revoked_at: string | null
  /** Accurate to the minute. Null when never used. */
  last_used_at: string | null
}

export type VerifiedKey = Pick<ApiKey, 'id' | 'scope' | 'template_id'>

/** Every method throws `store_unavailable`. */
export interface ApiKeys {
  /** Only this answer has the key itself. Throws `not_found` for an unknown tenant or template. */
  create(scope: ApiKeyScope, label: string, templateId?: string): Promise<{ id: string; key: string }>
  /** Null for an invalid key. */
  verify(key: string): Promise<VerifiedKey | null>
  /** False when the key is unknown or was already revoked. */
  revoke(id: string): Promise<boolean>
  /** Keys of one tenant, or of all with null. Newest first, at most 1,000. */
  list(tenantId: string | null): Promise<ApiKey[]>
}

const MAX_LIST = 1000
const KEY = /^cfd_[0-9a-f]{40}$/
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()
const scopeOf = (tenantId: string | null): ApiKeyScope =>
  tenantId === null ? 'admin' : { tenant_id: tenantId }

export function createApiKeys(db: Kysely<Database>): ApiKeys {
  return {
    create: async (input, label, templateId) => {
      const scope = parse(apiKeyScopeSchema, input, 'scope')
      const key = `cfd_${randomBytes(20).toString('hex')}`
      return await translating(
        'an API key',
        async () => {
          try {
            const { id } = await db
              .insertInto('api_keys')
              .values({
                key_sha256: sha256(key),
                tenant_id: scope === 'admin' ? null : scope.tenant_id,
                template_id: templateId ?? null,
                label: label.slice(0, 200),
              })
              .returning('id')
              .executeTakeFirstOrThrow()
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
          .select(['id', 'key_sha256', 'tenant_id', 'template_id', 'revoked_at'])
          .select(sql<boolean>`coalesce(last_used_at < now() - interval '1 minute', true)`.as('is_stale'))
          .where('key_sha256', '=', digest)
          .executeTakeFirst()
        // The index compares digests, so the time depends only on a hash that a caller cannot choose.
        if (row === undefined || !timingSafeEqual(row.key_sha256, digest) || row.revoked_at !== null)
          return null
        if (row.is_stale) await sql`update api_keys set last_used_at = now() where id = ${row.id}`.execute(db)
        return { id: row.id, scope: scopeOf(row.tenant_id), template_id: row.template_id }
      })
    },
    revoke: async (id) => {
      if (!UUID.test(id)) return false
      return await translating('an API key', async () => {
        const { numAffectedRows } = await sql`
          update api_keys set revoked_at = now() where id = ${id} and revoked_at is null`.execute(db)
        return numAffectedRows === 1n
      })
    },
    list: (tenantId) =>
      translating('the API keys', async () => {
        const all = db
          .selectFrom('api_keys')
          .select(['id', 'tenant_id', 'template_id', 'label', 'created_at', 'revoked_at', 'last_used_at'])
          .orderBy('created_at', 'desc')
          .limit(MAX_LIST)
        const rows = await (tenantId === null ? all : all.where('tenant_id', '=', tenantId)).execute()
        return rows.map(({ tenant_id, ...row }) => ({ ...row, scope: scopeOf(tenant_id) }))
      }),
  }
}
