/**
 * The suites: one program from end to end, a reached cap, two tenants at once, and a tenant without
 * interpreters. Each throws at the first mismatch.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { HOUR_MS, untilWindowLasts } from '../../../libs/embedded/src/window-end.ts'
import { interpreterName } from '../../../libs/backends/agentcore/src/provision/interpreter-name.ts'
import { checkLeaks } from './leak-check.ts'
import { PREFIX, type Stage, type StagedTenant } from './stage.ts'

export const SUITES: Readonly<Record<string, (stage: Stage) => Promise<void>>> = {
  pilot,
  'cap breach': capBreach,
  'cross tenant': crossTenant,
  'not provisioned': notProvisioned,
}

/** The service's image has pandas. The double runs this host's Python. */
const PROGRAM = `import importlib.util
if importlib.util.find_spec('pandas'):
    import pandas
    total = int(pandas.DataFrame({'n': [1, 2, 3]})['n'].sum())
else:
    total = sum([1, 2, 3])
print('total', total, 'pandas' if importlib.util.find_spec('pandas') else 'plain')
total`

/** Runs one program from end to end, and checks its audit row. */
async function pilot(stage: Stage): Promise<void> {
  const tenant = await stage.newTenant()
  const result = await stage.run(tenant, PROGRAM)
  assert.ok(result.ok, `${result.ending}: ${result.error_message}`)
  assert.equal(result.value, 6)
  const expected = stage.target.name === 'live' ? /^total 6 pandas\n?$/ : /^total 6 \w+\n?$/
  assert.match(result.stdout, expected)
  assert.equal(result.caps?.tenant_daily.used, 1)

  const [row, ...others] = await stage.rows(tenant.id)
  assert.equal(others.length, 0)
  assert.ok(row !== undefined)
  assert.equal(row.exit_status, 'ok')
  assert.equal(row.backend, 'agentcore')
  assert.equal(row.executed_code_hash, createHash('sha256').update(PROGRAM).digest('hex'))
  assert.ok(row.stdout_bytes > 0)
  assert.equal(row.stderr_bytes, 0)
  assert.equal(row.quota_charged, true)
  assert.ok(row.session_start_ms !== null)
  assert.ok(row.service_execution_time !== null)
  const name = interpreterName(PREFIX, tenant.id, 'internal-only')
  assert.ok(row.interpreter_id?.startsWith(`${name}-`), `interpreter ${row.interpreter_id}`)
  await checkLeaks(stage, tenant)
  const { tenant_daily: daily } = await stage.fleet.admission.usage(tenant.id)
  assert.equal(daily.used, (await stage.rows(tenant.id)).filter((one) => one.quota_charged).length)
}

/** An execution over the cap is refused: the refusal says when to try again, and nothing starts. */
async function capBreach(stage: Stage): Promise<void> {
  await untilWindowLasts(HOUR_MS, 60_000)
  const tenant = await stage.newTenant({ caps: { agent_hourly: 1 } })
  assert.equal((await stage.run(tenant, 'print(1)')).ending, 'ok')
  const sessions = stage.target.double?.data.sessions.started
  const refused = await stage.run(tenant, 'print(2)')
  assert.equal(refused.ok, false)
  assert.equal(refused.ending, 'cap_exceeded')
  assert.equal(refused.dimension, 'agent_hourly')
  assert.ok(Date.parse(refused.resets_at ?? '') > Date.now())
  assert.equal(stage.target.double?.data.sessions.started, sessions)

  const rows = (await stage.rows(tenant.id)).filter((row) => row.execution_id === refused.execution_id)
  assert.equal(rows.length, 1)
  assert.deepEqual(
    rows.map((row) => [row.exit_status, row.quota_charged, row.session_id, row.interpreter_id]),
    [['cap_exceeded', false, null, null]],
  )
  const { tenant_daily: daily } = await stage.fleet.admission.usage(tenant.id, 'agent')
  assert.equal(daily.used, 1)
}

/** Runs two tenants at once. Neither can see or use what belongs to the other. */
async function crossTenant(stage: Stage): Promise<void> {
  const tenants = [await stage.newTenant(), await stage.newTenant()] as const
  const session = { session: { key: 'repl', scope: 'interpreter' } } as const
  const write = (tenant: StagedTenant) => stage.run(tenant, `mine = '${tenant.id}'\nprint(mine)`, session)
  // Both use the same names for a session and a variable in it.
  const peek = (tenant: StagedTenant) => stage.run(tenant, "print(globals().get('mine'))", session)
  const wrote = await Promise.all(tenants.map(write))
  const peeked = await Promise.all(tenants.map(peek))
  for (const [at, tenant] of tenants.entries()) {
    assert.ok(wrote[at]?.ok, `${wrote[at]?.ending}: ${wrote[at]?.error_message}`)
    assert.equal(peeked[at]?.stdout.trim(), tenant.id)
    assert.equal(peeked[at]?.session?.id, wrote[at]?.session?.id)
  }
  assert.notEqual(wrote[0]?.session?.id, wrote[1]?.session?.id)

  const [mine, theirs] = [await stage.rows(tenants[0].id), await stage.rows(tenants[1].id)]
  assert.deepEqual([mine.length, theirs.length], [2, 2])
  for (const field of ['execution_id', 'user_id', 'session_id', 'interpreter_id'] as const) {
    const theirValues = new Set(theirs.map((row) => row[field]))
    assert.ok(!theirValues.has(null), `${field} is not set`)
    assert.ok(
      mine.every((row) => !theirValues.has(row[field])),
      `${field} is shared`,
    )
  }

  const [a, b] = tenants
  const theirId = theirs[0]?.execution_id ?? ''
  assert.equal((await stage.ask(b, `/v1/executions/${theirId}`)).status, 200)
  for (const route of ['', '/output', '/events', '/trace'])
    assert.equal((await stage.ask(a, `/v1/executions/${theirId}${route}`)).status, 404, route)
  assert.equal((await stage.ask(a, `/v1/audit/invocations?tenant_id=${b.id}`)).status, 403)
  assert.equal((await stage.ask(a, `/v1/tenants/${b.id}`)).status, 403)
  const audit = await stage.ask(a, '/v1/audit/invocations')
  assert.ok(audit.text.includes(a.id) && !audit.text.includes(b.id))
}

/** A tenant without interpreters is refused at once and not charged. After provisioning, it runs. */
async function notProvisioned(stage: Stage): Promise<void> {
  const tenant = await stage.newTenant({ provision: false })
  const refused = await stage.run(tenant, 'print(1)')
  assert.equal(refused.ending, 'provisioning')
  assert.equal(refused.reason, 'interpreter_not_ready')
  assert.match(refused.error_message ?? '', /no internal-only code interpreter .* try again in 30 s/)
  assert.deepEqual(
    (await stage.rows(tenant.id)).map((row) => [row.exit_status, row.quota_charged, row.interpreter_id]),
    [['provisioning', false, null]],
  )
  assert.equal((await stage.fleet.admission.usage(tenant.id)).tenant_daily.used, 0)
  await stage.provisioner.reconcile({
    tenantId: tenant.id,
    request: [{ tenantId: tenant.id, environments: ['internal-only'] }],
  })
  assert.equal((await stage.run(tenant, 'print(1)')).ending, 'ok')
}
