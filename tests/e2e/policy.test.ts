/** Policies as a caller meets them: a real worker process, real programs, real stores. */
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { createStore } from '@cofferdam/store'
import { PATIENT_TIMEOUTS } from '@cofferdam/store/testing'
import pg from 'pg'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'

const KEY = randomBytes(32)
const MARKER = 'patient-4711-marker'
/** The program builds the marker, so that its source does not contain it. */
const PRINTS = `import sys
marker = "-".join(["patient", "4711", "marker"])
print(marker * 20000)
print(marker, file=sys.stderr)
open("report.txt", "w").write(marker)
marker`

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet()
  await fleet.createTenant('open', { policy: { min_isolation: 'none' } })
  await fleet.createTenant('sealed', { policy: { min_isolation: 'none', encrypt_outputs: true } })
  await fleet.createTenant('tidy', {
    policy: { min_isolation: 'none', commands: { allow: null, block: ['rm', 'git push'] } },
  })
})
afterAll(() => fleet?.[Symbol.asyncDispose]())

const script = (tenantId: string, source: string, extra: object = {}) => ({
  tenant_id: tenantId,
  agent_id: 'agent',
  program: { type: 'script' as const, language: 'python' as const, source },
  ...extra,
})

describe('a worker without an output key', () => {
  it('refuses only executions whose output must be encrypted', async () => {
    const worker = await fleet.runWorker({ COFFERDAM_BACKENDS: 'none' })
    const refused = await fleet.client.run(script('sealed', 'print(1)'))
    expect(refused).toMatchObject({ ending: 'provisioning', reason: 'encryption_unavailable', backend: null })
    expect(await fleet.client.run(script('open', 'print(1)'))).toMatchObject({ ok: true, stdout: '1\n' })
    await worker.close()
  })
})

describe('a worker with an output key', () => {
  beforeAll(async () => {
    await fleet.runWorker({
      COFFERDAM_BACKENDS: 'none',
      COFFERDAM_OUTPUT_KEYS: `k1:${KEY.toString('base64')}`,
    })
  })

  it('answers the caller in clear and stores nothing that can be read', async () => {
    const result = await fleet.client.run(script('sealed', PRINTS, { artifacts: ['*.txt'] }))
    expect(result).toMatchObject({ ok: true, stdout_truncated: true, artifacts: [{ path: 'report.txt' }] })
    expect(result.stdout).toContain(MARKER)
    const failed = await fleet.client.run(
      script('sealed', 'raise ValueError("-".join(["patient", "4711", "marker"]))'),
    )
    expect(failed.error_message).toContain(MARKER)

    const blobDir = path.join(fleet.dataDir, 'blobs')
    const files = readdirSync(blobDir, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    )
    expect(files.length).toBeGreaterThanOrEqual(2)
    // Looks for the whole marker, because any four characters appear somewhere among so many random bytes.
    for (const file of files)
      expect(readFileSync(path.join(file.parentPath, file.name), 'latin1')).not.toContain(MARKER)
    const postgres = new pg.Client({ connectionString: fleet.databaseUrl })
    await postgres.connect()
    const { rows } = await postgres.query(
      'select row_to_json(r)::text from results r union all select row_to_json(i)::text from sandbox_invocations i',
    )
    await postgres.end()
    expect(rows.length).toBeGreaterThanOrEqual(4)
    expect(JSON.stringify(rows)).not.toContain(MARKER)

    await using reader = await createStore({
      databaseUrl: fleet.databaseUrl,
      blobDir,
      timeouts: PATIENT_TIMEOUTS,
      outputKeys: [{ id: 'k1', key: KEY }],
    })
    const found = await reader.findExecution('sealed', result.execution_id)
    expect(found?.result.stdout).toBe(result.stdout)
    const ref = found?.audit.at(-1)?.stdout_ref ?? ''
    const part = await reader.blobs.read(ref, { start: 65_530, end: 65_560 })
    expect(Buffer.from(part!.bytes).toString()).toBe(`${MARKER.repeat(20_000)}\n`.slice(65_530, 65_560))
    const artifact = await reader.blobs.read(found?.artifactRefs[0]?.ref ?? '')
    expect(Buffer.from(artifact!.bytes).toString()).toBe(MARKER)
  })

  it('does not start a blocked command, wherever it appears', async () => {
    const run = (shell: string) =>
      fleet.client.run({ tenant_id: 'tidy', agent_id: 'agent', program: { type: 'command', shell } })
    expect(await run('echo "$(r\\m -rf x)"')).toMatchObject({
      ok: false,
      ending: 'policy_denied',
      reason: 'command_blocked',
      error: 'SandboxPolicyDenied',
      error_message: 'Command "rm" is blocked for the tenant by the rule "rm".',
      backend: null,
    })
    expect(await run('echo rm')).toMatchObject({ ok: true, stdout: 'rm\n' })
    expect(await run('git push origin')).toMatchObject({ reason: 'command_blocked' })
  })

  it('binds an agent to its template, and can require one of several templates', async () => {
    const { store, client } = fleet
    const templates = { required: true, agents: { agent: 'strict' } }
    await store.tenants.create({ tenant_id: 'bound', policy: { min_isolation: 'none' } }, 'test')
    for (const [template_id, sandbox] of [
      ['strict', { environment: 'internal-only', retention_days: 3 }],
      ['lax', { environment: 'default-public' }],
      ['out', null],
    ] as const)
      await store.templates.put({ tenant_id: 'bound', template_id, sandbox }, 'test')
    await store.tenants.setPolicy('bound', { templates }, 'test')

    const fine = await client.run(script('bound', 'print(1)'))
    expect(fine).toMatchObject({ ok: true })
    const row = (await store.findExecution('bound', fine.execution_id))?.audit.at(-1)
    expect(row).toMatchObject({
      template_id: 'strict',
      environment_id: 'internal-only',
      retention_days: 3,
    })
    const ended = async (extra: object) => {
      const { ending, reason, error } = await client.run(script('bound', 'print(1)', extra))
      return [ending, reason, error]
    }
    expect(await ended({ network: 'public' })).toEqual([
      'policy_denied',
      'network_not_allowed',
      'SandboxPolicyDenied',
    ])
    expect(await ended({ template_id: 'lax' })).toEqual([
      'policy_denied',
      'template_bound',
      'SandboxPolicyDenied',
    ])
    expect(await ended({ agent_id: 'other' })).toEqual([
      'policy_denied',
      'template_required',
      'SandboxPolicyDenied',
    ])
    expect(await ended({ agent_id: 'other', template_id: 'lax' })).toEqual(['ok', undefined, undefined])
    // Template `out` does not opt its agents into sandboxing.
    expect(await ended({ agent_id: 'other', template_id: 'out' })).toEqual([
      'provisioning',
      'not_requested',
      'SandboxProvisioning',
    ])
  })

  it('runs code of a regulated tenant only under a safe template, with forced settings', async () => {
    const { store, client } = fleet
    await store.tenants.create(
      { tenant_id: 'clinic', policy: { compliance_tier: 'hipaa', sandbox_enabled: true } },
      'test',
    )
    const file = new URL('../../examples/regulated-template.json', import.meta.url)
    const { sandbox } = JSON.parse(readFileSync(file, 'utf8')) as {
      sandbox: { environment: 'internal-only' }
    }
    await store.templates.put({ tenant_id: 'clinic', template_id: 'safe', sandbox }, 'test')
    await store.templates.put(
      { tenant_id: 'clinic', template_id: 'lax', sandbox: { environment: 'internal-only' } },
      'test',
    )
    expect(await client.run(script('clinic', 'print(1)', { template_id: 'lax' }))).toMatchObject({
      ending: 'provisioning',
      reason: 'tenant_sandbox_disabled',
      error_message: expect.stringContaining('missing: network "none", min_isolation'),
    })
    // Policy allows this execution. Backend selection refuses it: this worker runs plain processes, and the
    // template requires a kernel of its own.
    const passed = await client.run(script('clinic', 'print(1)', { template_id: 'safe' }))
    expect(passed).toMatchObject({ ending: 'provisioning', reason: 'isolation_unavailable' })
    const kept = (await store.findExecution('clinic', passed.execution_id))?.audit.at(-1)
    expect(kept).toMatchObject({ retention_days: 7, environment_id: 'internal-only' })
  })
})

needs('gvisor').describe('a worker with gVisor and an output key', () => {
  it(
    'runs code of a regulated tenant, and keeps it encrypted for seven days',
    { timeout: 240_000 },
    async () => {
      const fresh = await startFleet()
      await using _fresh = fresh
      const file = new URL('../../examples/regulated-template.json', import.meta.url)
      const { sandbox } = JSON.parse(readFileSync(file, 'utf8')) as {
        sandbox: { environment: 'internal-only' }
      }
      await fresh.store.tenants.create(
        { tenant_id: 'clinic', policy: { compliance_tier: 'hipaa', sandbox_enabled: true } },
        'test',
      )
      await fresh.store.templates.put({ tenant_id: 'clinic', template_id: 'safe', sandbox }, 'test')
      await fresh.runWorker({
        COFFERDAM_BACKENDS: 'process,docker,gvisor',
        COFFERDAM_OUTPUT_KEYS: `k1:${KEY.toString('base64')}`,
      })
      const request = script('clinic', PRINTS, { template_id: 'safe', artifacts: ['*.txt'] })
      const result = await fresh.client.run(request, { timeoutMs: 90_000 })
      expect(result).toMatchObject({
        ok: true,
        backend: 'gvisor',
        isolation: 'gvisor',
        artifacts: [{ path: 'report.txt' }],
      })
      expect(result.stdout).toContain(MARKER)
      const { rows } = await fresh.store.listAudit({ tenantId: 'clinic', limit: 1 })
      expect(rows).toMatchObject([{ retention_days: 7, environment_id: 'internal-only', outbound_hosts: [] }])
      const folder = path.join(fresh.dataDir, 'blobs')
      const stored = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
        entry.isFile(),
      )
      expect(stored.length).toBeGreaterThan(0)
      for (const entry of stored)
        expect(readFileSync(path.join(entry.parentPath, entry.name)).includes(MARKER)).toBe(false)
    },
  )
})
