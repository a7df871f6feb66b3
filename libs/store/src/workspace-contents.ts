/** The contents of a workspace in Postgres, once per hash. */
import { CofferdamError, type Manifest, type WorkspaceName } from '@cofferdam/contract'
import { sql, type Transaction } from 'kysely'
import type { OutputKeys } from './output-keys.ts'
import { sealBytes, type SealedLocation } from './sealed-format.ts'
import type { Database } from './tables.ts'

/**
 * A batch is written as soon as it has this many bytes, so its last file (up to 8 MiB) can exceed the size. A
 * larger batch could exceed the statement timeout.
 */
const WRITE_BATCH_BYTES = 4 * 1024 * 1024

/**
 * Binds sealed bytes to their tenant, workspace and hash. Copied to another row, they cannot be decrypted.
 */
export const locationOf = (tenant: string, name: string, sha256: string): SealedLocation => ({
  tenant,
  location: `workspace/${name}/${sha256}`,
})

/** Writes contents in batches, sealed if there is a key. */
export async function writeContents(
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
export async function keepContents(
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
