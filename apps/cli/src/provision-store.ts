/** Opens the records of what was provisioned, for commands that connect to Postgres themselves. */
import { userInfo } from 'node:os'
import { blobPlaceOf } from '@cofferdam/config'
import { CofferdamError } from '@cofferdam/contract'
import { createStore, type Store } from '@cofferdam/store'
import type { CliConfig } from './config.ts'

/** Throws `config_invalid` without DATABASE_URL, and `store_unavailable` when Postgres does not answer. */
export async function openStore(config: CliConfig): Promise<Store> {
  const { databaseUrl } = config
  if (databaseUrl === undefined)
    throw new CofferdamError(
      'config_invalid',
      'DATABASE_URL is not set (example: postgres://cofferdam@127.0.0.1/cofferdam).',
    )
  const store = await createStore({ databaseUrl, ...blobPlaceOf(config) })
  try {
    await store.check()
    return store
  } catch (error) {
    await store[Symbol.asyncDispose]()
    throw error
  }
}

/** The author that events record. */
export const provisioningActor = (): string => `cofferdam provision by ${userInfo().username}`
