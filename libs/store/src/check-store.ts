/**
 * Checks whether the database takes attempts: both roles can log in, the schema is at least that of this
 * build, and it is writable. Without this check, the first execution would find the fault only after its
 * program ran.
 */
import { CofferdamError } from '@cofferdam/contract'
import { sql, type Kysely } from 'kysely'
import { SCHEMA_VERSION } from './schema-state.ts'
import { translating } from './store-errors.ts'
import type { Database } from './tables.ts'

/**
 * Throws `store_unavailable` while Postgres does not answer or is read-only, and `config_invalid` when the
 * setup is incomplete. Both messages say what to do.
 */
export async function checkDatabase(db: Kysely<Database>, role: string): Promise<void> {
  const { rows } = await translating(`a look at its schema as ${role}`, () =>
    sql<{ version: number; read_only: string }>`
      select coalesce(max(number), 0) as version, current_setting('transaction_read_only') as read_only
      from cofferdam_migrations`.execute(db),
  )
  const { version = 0, read_only: readOnly } = rows[0] ?? {}
  // A newer schema is fine: during a rolling deploy both builds run.
  if (version < SCHEMA_VERSION)
    throw new CofferdamError(
      'config_invalid',
      `The database has schema version ${version}, and this build needs ${SCHEMA_VERSION}. ` +
        'Run `cofferdam setup` of this build with the owner of the schema.',
    )
  if (readOnly === 'on')
    throw new CofferdamError(
      'store_unavailable',
      'The database is read-only. Let DATABASE_URL name the primary, not a replica, and look for ' +
        'default_transaction_read_only.',
    )
}
