/** A client in an open transaction that has written. An ordinary index build would wait for its end. */
import pg from 'pg'

export interface OpenWriter extends AsyncDisposable {
  client: pg.Client
  rollback(): Promise<void>
}

/** Disposing closes the connection. */
export async function openWriter(url: string): Promise<OpenWriter> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query('begin')
  await client.query(`insert into attempts (execution_id, attempt, expires_on)
    values (gen_random_uuid(), 1, current_date + 30)`)
  return {
    client,
    async rollback() {
      await client.query('rollback')
    },
    [Symbol.asyncDispose]: () => client.end(),
  }
}
