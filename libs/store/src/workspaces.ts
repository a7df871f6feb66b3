/**
 * Workspaces in Postgres: one row with the list of files and a version, and each content once per hash. A
 * commit is one transaction that locks the workspace's row, so of several concurrent commits one wins.
 */
import {
  CofferdamError,
  type FileFacts,
  type Manifest,
  type WorkspaceName,
  type WorkspaceStore,
} from '@cofferdam/contract'
import { sql, type Kysely, type Transaction } from 'kysely'
import { asTenant } from './connect.ts'
import type { OutputKeys } from './output-keys.ts'
import { openBytes, sealBytes, type SealedLocation } from './sealed-format.ts'
import { sqlState, translating } from './store-errors.ts'
import type { Database } from './tables.ts'

export interface WorkspaceSummary {
  name: string
  version: number
  files: number
  bytes: number
  updated_at: string
}

/** Every method throws `store_unavailable`. */
export interface Workspaces extends WorkspaceStore {
  /** By name, at most 1,000. */
  list(tenantId: string): Promise<WorkspaceSummary[]>
  /** False when there was none. */
  remove(workspace: WorkspaceName): Promise<boolean>
}

/** A file as stored in the row. */
type StoredFile = [path: string, sha256: string, size: number, mode: number]

const MAX_LIST = 1000
/** A batch has at most this and one file of 8 MiB. More could exceed the statement timeout. */
const WRITE_BATCH_BYTES = 4 * 1024 * 1024

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
        } else {
          const now = await find(tx, tenantId, name).forUpdate().executeTakeFirst()
          if (now?.version !== change.expectedVersion) return null
          const { expectedManifest: expected } = change
          // The manifest was read from this row, so it has the same order.
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
        return version
      }),
    list: (tenantId) =>
      as(tenantId, async (tx) => {
        const rows = await tx
          .selectFrom('workspaces')
          .select(['name', 'version', 'files', 'updated_at'])
          .where('tenant_id', '=', tenantId)
          .orderBy('name')
          .limit(MAX_LIST)
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

const storedText = (manifest: Manifest): string =>
  JSON.stringify(
    [...manifest].map(([path, { sha256, size, mode }]): StoredFile => [path, sha256, size, mode]),
  )

const manifestOf = (files: readonly StoredFile[]): Manifest =>
  new Map(files.map(([path, sha256, size, mode]) => [path, { sha256, size, mode }]))

const locationOf = (tenant: string, name: string, sha256: string): SealedLocation => ({
  tenant,
  location: `workspace/${name}/${sha256}`,
})

async function writeContents(
  tx: Transaction<Database>,
  keys: OutputKeys,
  { tenantId, name }: WorkspaceName,
  contents: ReadonlyMap<string, Uint8Array>,
): Promise<void> {
  const { current } = keys
  let batch: { tenant_id: string; name: string; sha256: string; content: Buffer; sealed: boolean }[] = []
  let bytes = 0
  const flush = async (): Promise<void> => {
    if (batch.length > 0)
      await tx
        .insertInto('workspace_contents')
        .values(batch)
        .onConflict((oc) => oc.columns(['tenant_id', 'name', 'sha256']).doNothing())
        .execute()
    batch = []
    bytes = 0
  }
  for (const [sha256, text] of contents) {
    const content =
      current === null ? Buffer.from(text) : sealBytes(current, locationOf(tenantId, name, sha256), text)
    batch.push({ tenant_id: tenantId, name, sha256, content, sealed: current !== null })
    bytes += content.length
    if (bytes >= WRITE_BATCH_BYTES) await flush()
  }
  await flush()
}

/** Deletes contents that no path uses. Throws `internal` when the content of a path is missing. */
async function keepContents(
  tx: Transaction<Database>,
  { tenantId, name }: WorkspaceName,
  manifest: Manifest,
): Promise<void> {
  const named = [...new Set([...manifest.values()].map(({ sha256 }) => sha256))]
  await tx
    .deleteFrom('workspace_contents')
    .where('tenant_id', '=', tenantId)
    .where('name', '=', name)
    .where(sql<boolean>`sha256 <> all(${named})`)
    .execute()
  const { held } = await tx
    .selectFrom('workspace_contents')
    .select((eb) => eb.fn.countAll<number>().as('held'))
    .where('tenant_id', '=', tenantId)
    .where('name', '=', name)
    .executeTakeFirstOrThrow()
  if (Number(held) !== named.length)
    throw new CofferdamError('internal', 'A commit of a workspace names contents that it did not bring.')
}
