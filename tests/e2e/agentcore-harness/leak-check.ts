/**
 * Looks for secrets wherever parts of an execution are stored. It first stores its own canary and waits until
 * the redacted form of it is visible, because a check of empty stores would always pass.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import pg from 'pg'
import type { Stage, StagedTenant } from './stage.ts'

const TABLES = ['sandbox_invocations', 'results', 'code_interpreters', 'code_interpreter_events']

/** Throws when a canary, or one of the target's own keys, is stored in clear text anywhere. */
export async function checkLeaks(stage: Stage, tenant: StagedTenant): Promise<void> {
  const canary = `canary-${randomBytes(16).toString('hex')}`
  const marker = randomBytes(8).toString('hex')
  const result = await stage.run(
    tenant,
    [
      'import os, sys',
      `print('${marker}', os.environ['CANARY_TOKEN'])`,
      `print('${marker}', os.environ['CANARY_TOKEN'], file=sys.stderr)`,
      'print(sorted(os.environ.items()))',
    ].join('\n'),
    { env: { CANARY_TOKEN: canary } },
  )
  // The canary was used, and its redacted form is visible.
  assert.ok(result.ok, `${result.ending}: ${result.error_message}`)
  assert.ok(result.stdout.includes(`${marker} <redacted>`), `the canary is not visible: ${result.stdout}`)

  const { secretAccessKey, sessionToken } = stage.target.credentials
  const secrets = { canary, 'the secret key': secretAccessKey, 'the session token': sessionToken }
  const places = await collect(stage, tenant, result.execution_id)
  const holding = places.filter(({ text }) => text.includes(marker)).map(({ name }) => name)
  assert.ok(holding.includes('table results'), `what ran is not stored yet: ${holding.join(', ')}`)
  for (const { name, text } of places)
    for (const [what, secret] of Object.entries(secrets))
      if (secret !== undefined) assert.ok(!text.includes(secret), `${what} stands in ${name}`)
}

async function collect(
  stage: Stage,
  tenant: StagedTenant,
  id: string,
): Promise<{ name: string; text: string }[]> {
  const places = [{ name: 'the worker’s log', text: stage.workerLog() }]
  for (const route of ['', '/output', '/events', '/trace']) {
    const { text } = await stage.ask(tenant, `/v1/executions/${id}${route}`)
    places.push({ name: `GET /v1/executions/ID${route}`, text })
  }
  const client = new pg.Client({ connectionString: stage.fleet.databaseUrl })
  await client.connect()
  try {
    for (const table of TABLES) {
      const { rows } = await client.query<{ text: string }>(`select t::text as text from ${table} t`)
      places.push({ name: `table ${table}`, text: rows.map(({ text }) => text).join('\n') })
    }
  } finally {
    await client.end()
  }
  const blobs = path.join(stage.fleet.dataDir, 'blobs')
  for (const entry of await readdir(blobs, { recursive: true, withFileTypes: true }))
    if (entry.isFile())
      places.push({
        name: `blob ${entry.name}`,
        text: await readFile(path.join(entry.parentPath, entry.name), 'latin1'),
      })
  return places
}
