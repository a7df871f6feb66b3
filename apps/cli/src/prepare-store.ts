/** Makes a database usable: schema, the demo tenant, and an admin key in a file that only this user can read. */
import { chmodSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import path from 'node:path'
import { isCofferdamError } from '@cofferdam/contract'
import { createStore, migrate, type Store } from '@cofferdam/store'
import { adminKeyFile } from './api-connection.ts'
import { makeDataDir } from './data-dir.ts'

export const DEMO_TENANT = 'demo'

/** Brings the database up to date and returns the admin key. May be repeated. */
export async function prepareStore(databaseUrl: string, dataDir: string): Promise<{ adminKey: string }> {
  await migrate(databaseUrl)
  makeDataDir(dataDir)
  await using store = await createStore({ databaseUrl, blobDir: path.join(dataDir, 'blobs') })
  try {
    await store.tenants.create({ tenant_id: DEMO_TENANT }, 'cofferdam')
  } catch (error) {
    if (!isCofferdamError(error) || error.code !== 'conflict') throw error
  }
  return { adminKey: await adminKeyOf(store, dataDir) }
}

/** The key of the file when the database knows it; else a new one, written to the file. */
async function adminKeyOf(store: Store, dataDir: string): Promise<string> {
  const file = adminKeyFile(dataDir)
  if (existsSync(file)) {
    const kept = readFileSync(file, 'utf8').trim()
    if ((await store.keys.verify(kept))?.scope === 'admin') {
      chmodSync(file, 0o600)
      return kept
    }
  }
  const { key } = await store.keys.create('admin', `made on ${hostname()} for ${file}`.slice(0, 200))
  // Written aside and renamed: the file never stands half-written or readable by others.
  writeFileSync(`${file}.new`, `${key}\n`, { mode: 0o600 })
  renameSync(`${file}.new`, file)
  return key
}
