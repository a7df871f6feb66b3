import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { privatePostgres } from '@cofferdam/embedded/testing'
import type { RunningServer } from '@cofferdam/embedded'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createStore, migrate } from '../src/index.ts'
import { PATIENT_TIMEOUTS } from '../src/testing.ts'
import { sampleAttempt } from './sample-attempt.ts'

let server: RunningServer
let blobDir: string

// A separate server, because roles belong to the whole cluster.
beforeAll(async () => {
  server = await privatePostgres()
  blobDir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
})
afterAll(async () => {
  await server.stop()
  rmSync(blobDir, { recursive: true, force: true })
})

async function admin(...statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}

const urlFor = (user: string, database: string): string =>
  server.url.replace('postgres@/cofferdam', `${user}@/${database}`)

async function recordsWith(databaseUrl: string): Promise<boolean> {
  await using store = await createStore({ databaseUrl, blobDir, timeouts: PATIENT_TIMEOUTS })
  return (await store.record(sampleAttempt())).inserted
}

describe('a database user without superuser rights', () => {
  it('gets the exact statements for an administrator if it may not create roles', async () => {
    await admin('create role plain login', 'create database plain owner plain')
    const url = urlFor('plain', 'plain')
    const refusal: unknown = await migrate(url).catch((error: unknown) => error)
    expect(refusal).toMatchObject({ code: 'config_invalid', message: expect.stringContaining('CREATEROLE') })
    const message = refusal instanceof Error ? refusal.message : ''
    // Runs the advised statements literally.
    await admin(message.slice(message.indexOf('create role cofferdam_app')))
    await migrate(url)
    expect(await recordsWith(url)).toBe(true)
    await admin('drop database plain', 'drop role cofferdam_sweeper, cofferdam_all_tenants, cofferdam_app')
  })

  it('creates the roles itself when it may create roles', async () => {
    await admin('create role maker login createrole', 'create database maker owner maker')
    const url = urlFor('maker', 'maker')
    await migrate(url)
    expect(await recordsWith(url)).toBe(true)
  })

  it('does not get more rights when it cannot take the role', async () => {
    await admin('create role outsider login')
    const url = urlFor('outsider', 'maker')
    await using store = await createStore({ databaseUrl: url, blobDir, timeouts: PATIENT_TIMEOUTS })
    await expect(store.check()).rejects.toMatchObject({ code: 'config_invalid' })
    await expect(store.record(sampleAttempt())).rejects.toMatchObject({ code: 'config_invalid' })
  })
})
