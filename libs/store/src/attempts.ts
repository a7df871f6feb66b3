/** Reads `attempts`: which attempts of an execution were recorded, and in which partition they stand. */
import type { Kysely, Transaction } from 'kysely'
import type { Database } from './tables.ts'

export interface AttemptPlace {
  attempt: number
  expiresOn: string
}

/** The recorded attempts of an execution, first attempt first; empty when there is none. */
export async function attemptsOf(
  db: Kysely<Database> | Transaction<Database>,
  executionUuid: string,
): Promise<AttemptPlace[]> {
  const rows = await db
    .selectFrom('attempts')
    .select(['attempt', 'expires_on'])
    .where('execution_id', '=', executionUuid)
    .orderBy('attempt')
    .execute()
  return rows.map((row) => ({ attempt: row.attempt, expiresOn: row.expires_on }))
}
