/**
 * Workspaces in Postgres: one row with the list of files and a version, and each content once per hash. A
 * commit is one transaction that locks the workspace's row, so of several concurrent commits one wins.
 */
import {
  BOUNDS,
  CofferdamError,
  type FileFacts,
  type Manifest,
  type WorkspaceName,
  type WorkspaceStore,
} from '@cofferdam/contract'
import { sql, type Kysely, type Transaction } from 'kysely'
import { asTenant } from './connect.ts'
import type { OutputKeys } from './output-keys.ts'
import { openBytes } from './sealed-format.ts'
import { sqlState, translating } from './store-errors.ts'
import type { Database } from './tables.ts'
import { keepContents, locationOf, writeContents } from './workspace-contents.ts'

export interface WorkspaceSummary {
  name: string
  version: number
  files: number
  bytes: number
  updated_at: string
}

/** Every method can throw `store_unavailable`. */
export interface Workspaces extends WorkspaceStore {
  /** All workspaces of the tenant, sorted by name. */
  list(tenantId: string): Promise<WorkspaceSummary[]>
  /** False when there was none. */
  remove(workspace: WorkspaceName): Promise<boolean>
}

/** A file as stored in the row. */
type StoredFile = [path: string, sha256: string, size: number, mode: number]

/**
 * The first of the two keys of a tenant's advisory lock. Postgres keeps locks with two keys apart from locks
 * with one.
 */
const CREATE_LOCK = 7020

export function createWorkspaces(app: Kysely<Database>, keys: OutputKeys): Workspaces {
  const as = <T>(tenantId: string, work: (tx: Transaction<Database>) => Promise<T>): Promise<T> =>
    translating('a workspace', async () => {
      try {
        return await asTenant(app, tenantId, work)
      } catch (error) {
        if (sqlState(error) !== '23503') throw error
        throw new CofferdamError('not_found', `There is no tenant ${tenantId.slice(0, 128)}.`)
      }
    })

  return {
    read: ({ tenantId, name }) =>
      as(tenantId, async (tx) => {
        const row = await find(tx, tenantId, name).executeTakeFirst()
        return row === undefined
          ? { version: 0, manifest: new Map<string, FileFacts>() }
          : { version: row.version, manifest: manifestOf(row.files) }
      }),
    contents: ({ tenantId, name }, sha256s) =>
      as(tenantId, async (tx) => {
        if (sha256s.length === 0) return new Map<string, Uint8Array>()
        const rows = await tx
          .selectFrom('workspace_contents')
          .select(['sha256', 'content', 'sealed'])
          .where('tenant_id', '=', tenantId)
          .where('name', '=', name)
          .where('sha256', 'in', [...sha256s])
          .execute()
        return new Map(
          rows.map((row): [string, Uint8Array] => [
            row.sha256,
            row.sealed ? openBytes(keys, locationOf(tenantId, name, row.sha256), row.content) : row.content,
          ]),
        )
      }),
    commit: ({ tenantId, name }, change) =>
      as(tenantId, async (tx) => {
        const files = storedText(change.manifest)
        const version = change.expectedVersion + 1
        if (change.expectedVersion === 0) {
          const { numInsertedOrUpdatedRows = 0n } = await tx
            .insertInto('workspaces')
            .values({ tenant_id: tenantId, name, version, files })
            .onConflict((oc) => oc.columns(['tenant_id', 'name']).doNothing())
            .executeTakeFirstOrThrow()
          if (numInsertedOrUpdatedRows === 0n) return null
          // Checks early, without the lock, so that a tenant with too many workspaces writes no contents.
          await refuseTooMany(tx, tenantId)
        } else {
          const now = await find(tx, tenantId, name).forUpdate().executeTakeFirst()
          if (now?.version !== change.expectedVersion) return null
          const { expectedManifest: expected } = change
          // `expected` was read from this row, so its files are in the same order and the JSON texts can be
          // compared.
          if (expected !== undefined && JSON.stringify(now.files) !== storedText(expected)) return null
          await tx
            .updateTable('workspaces')
            .set({ version, files, updated_at: new Date() })
            .where('tenant_id', '=', tenantId)
            .where('name', '=', name)
            .execute()
        }
        await writeContents(tx, keys, { tenantId, name }, change.contents)
        await keepContents(tx, { tenantId, name }, change.manifest)
        if (change.expectedVersion === 0) await countAlone(tx, tenantId)
        return version
      }),
    list: (tenantId) =>
      as(tenantId, async (tx) => {
        const rows = await tx
          .selectFrom('workspaces')
          .select(['name', 'version', 'files', 'updated_at'])
          .where('tenant_id', '=', tenantId)
          .orderBy('name')
          .limit(BOUNDS.workspaces)
          .execute()
        return rows.map(({ files, ...row }) => ({
          ...row,
          files: files.length,
          bytes: files.reduce((sum, [, , size]) => sum + size, 0),
        }))
      }),
    remove: ({ tenantId, name }) =>
      as(tenantId, async (tx) => {
        const { numDeletedRows } = await tx
          .deleteFrom('workspaces')
          .where('tenant_id', '=', tenantId)
          .where('name', '=', name)
          .executeTakeFirstOrThrow()
        return numDeletedRows > 0n
      }),
  }
}

const find = (tx: Transaction<Database>, tenantId: string, name: string) =>
  tx
    .selectFrom('workspaces')
    .select(['version', 'files'])
    .where('tenant_id', '=', tenantId)
    .where('name', '=', name)

/** Counts the committed workspaces and those of this transaction. */
async function refuseTooMany(tx: Transaction<Database>, tenantId: string): Promise<void> {
  const { count } = await tx
    .selectFrom('workspaces')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('tenant_id', '=', tenantId)
    .executeTakeFirstOrThrow()
  if (Number(count) > BOUNDS.workspaces)
    throw new CofferdamError(
      'too_many_workspaces',
      `The tenant has ${BOUNDS.workspaces} workspaces already, so this one was not created.`,
    )
}

/**
 * These are the last statements before the commit. The lock makes transactions that create workspaces of a
 * tenant count one after the other. Each sees what the others committed, so the bound is exact. The lock is
 * not held while contents are written, because waiting transactions would exceed the statement timeout.
 */
async function countAlone(tx: Transaction<Database>, tenantId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(${CREATE_LOCK}, hashtext(${tenantId}))`.execute(tx)
  await refuseTooMany(tx, tenantId)
}

const storedText = (manifest: Manifest): string =>
  JSON.stringify(
    [...manifest].map(([path, { sha256, size, mode }]): StoredFile => [path, sha256, size, mode]),
  )

const manifestOf = (files: readonly StoredFile[]): Manifest =>
  new Map(files.map(([path, sha256, size, mode]) => [path, { sha256, size, mode }]))
