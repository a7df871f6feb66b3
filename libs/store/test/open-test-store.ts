/** A store with its own database and blob directory, and raw connections for what the store never does. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { createStore, type Store } from '../src/index.ts'
import { createTestDatabase, PATIENT_TIMEOUTS } from '../src/testing.ts'

export interface TestStore {
  store: Store
  url: string
  blobDir: string
  /** Runs SQL as the owner of the schema. */
  owner(text: string, values?: unknown[]): Promise<pg.QueryResult<Record<string, unknown>>>
  /** Runs SQL under a role of the app, optionally as a tenant. */
  as(role: string, text: string, tenantId?: string): Promise<pg.QueryResult<Record<string, unknown>>>
  close(): Promise<void>
}

export async function openTestStore(): Promise<TestStore> {
  const database = await createTestDatabase()
  const blobDir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
  const store = await createStore({ databaseUrl: database.url, blobDir, timeouts: PATIENT_TIMEOUTS })
  const connection = async <T>(use: (client: pg.Client) => Promise<T>): Promise<T> => {
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    try {
      return await use(client)
    } finally {
      await client.end()
    }
  }
  return {
    store,
    url: database.url,
    blobDir,
    owner: (text, values) => connection((client) => client.query(text, values)),
    as: (role, text, tenantId) =>
      connection(async (client) => {
        await client.query(`set role ${role}`)
        if (tenantId !== undefined)
          await client.query(`select set_config('app.tenant_id', $1, false)`, [tenantId])
        return await client.query(text)
      }),
    async close() {
      await store[Symbol.asyncDispose]()
      await database.drop()
      rmSync(blobDir, { recursive: true, force: true })
    },
  }
}
