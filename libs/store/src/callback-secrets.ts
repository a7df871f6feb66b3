/**
 * The secrets that sign a tenant's callbacks: 32 random bytes, shown once. The worker reads them to sign, so
 * they are stored encrypted if there is an output key, else in clear. After a rotation the previous secret
 * also signs for a day.
 */
import { randomBytes } from 'node:crypto'
import { CofferdamError } from '@cofferdam/contract'
import type { Kysely } from 'kysely'
import { nameActor, type Author } from './author.ts'
import { asTenant } from './connect.ts'
import type { OutputKeys } from './output-keys.ts'
import { openBytes, sealBytes, type SealedLocation } from './sealed-format.ts'
import { sqlState, translating } from './store-errors.ts'
import type { Database } from './tables.ts'

/** Every method throws `store_unavailable`. Events of a change without an `actor` name the database role. */
export interface CallbackSecrets {
  /** Creates a secret: `whsec_` and base64 (Standard Webhooks). Throws `not_found` for an unknown tenant. */
  rotate(tenantId: string, actor?: Author): Promise<{ secret: string; rotated_at: string }>
  /** When the secret was created, or null. */
  info(tenantId: string): Promise<{ rotated_at: string } | null>
  /** The secrets that sign at `nowMs`, newest first, perhaps none. */
  read(tenantId: string, nowMs: number): Promise<Buffer[]>
  /** False when there was none. */
  remove(tenantId: string, actor?: Author): Promise<boolean>
}

const SECRET_BYTES = 32
const PREVIOUS_MS = 24 * 3_600_000

export function createCallbackSecrets(app: Kysely<Database>, keys: OutputKeys): CallbackSecrets {
  const where = (tenantId: string): SealedLocation => ({ tenant: tenantId, location: 'callback-secret' })
  const opened = (tenantId: string, stored: Buffer, sealed: boolean): Buffer =>
    sealed ? openBytes(keys, where(tenantId), stored) : stored
  const rowOf = (tenantId: string) =>
    translating('a callback secret', () =>
      asTenant(app, tenantId, (tx) =>
        tx.selectFrom('callback_secrets').selectAll().where('tenant_id', '=', tenantId).executeTakeFirst(),
      ),
    )

  return {
    rotate: (tenantId, actor) =>
      translating('a callback secret', async () => {
        const secret = randomBytes(SECRET_BYTES)
        const stored = keys.current === null ? secret : sealBytes(keys.current, where(tenantId), secret)
        const sealed = keys.current !== null
        const rotated = new Date()
        try {
          await asTenant(app, tenantId, async (tx) => {
            if (actor !== undefined) await nameActor(tx, { actor, source: 'api' })
            await tx
              .insertInto('callback_secrets')
              .values({ tenant_id: tenantId, secret: stored, sealed, rotated_at: rotated })
              .onConflict((oc) =>
                oc.column('tenant_id').doUpdateSet((eb) => ({
                  secret: stored,
                  sealed,
                  previous: eb.ref('callback_secrets.secret'),
                  previous_sealed: eb.ref('callback_secrets.sealed'),
                  rotated_at: rotated,
                })),
              )
              .execute()
          })
        } catch (error) {
          if (sqlState(error) === '23503')
            throw new CofferdamError('not_found', `There is no tenant ${tenantId}.`)
          throw error
        }
        return { secret: `whsec_${secret.toString('base64')}`, rotated_at: rotated.toISOString() }
      }),
    async info(tenantId) {
      const row = await rowOf(tenantId)
      return row === undefined ? null : { rotated_at: row.rotated_at }
    },
    async read(tenantId, nowMs) {
      const row = await rowOf(tenantId)
      if (row === undefined) return []
      const current = opened(tenantId, row.secret, row.sealed)
      const isFresh = nowMs - Date.parse(row.rotated_at) < PREVIOUS_MS
      return row.previous === null || !isFresh
        ? [current]
        : [current, opened(tenantId, row.previous, row.previous_sealed === true)]
    },
    remove: (tenantId, actor) =>
      translating('a callback secret', async () => {
        const { numDeletedRows } = await asTenant(app, tenantId, async (tx) => {
          if (actor !== undefined) await nameActor(tx, { actor, source: 'api' })
          return tx.deleteFrom('callback_secrets').where('tenant_id', '=', tenantId).executeTakeFirstOrThrow()
        })
        return numDeletedRows > 0n
      }),
  }
}
