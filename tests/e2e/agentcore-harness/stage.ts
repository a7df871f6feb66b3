/**
 * A fleet of its own in front of a target: Redis, Postgres, API, one worker with the agentcore backend, and
 * tenants. A tenant is made for one suite and deleted again with everything it has at the service, also after
 * failures. Leftovers of an earlier run are deleted a day later.
 */
import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import {
  agentcoreProvisionConfigSchema,
  createAgentcoreProvisioner,
  interpretersFor,
  type AgentcoreProvisioner,
  type GarbageLine,
} from '@cofferdam/backends'
import type {
  AuditRow,
  ExecutionRequestInput,
  ExecutionResult,
  TenantCaps,
  TenantPolicy,
} from '@cofferdam/contract'
import { startFleet, type Fleet } from '../../fleet.ts'
import type { Credentials, Target } from './target.ts'

/** Prefix of every name at the service. In an account, only this harness may use it. */
export const PREFIX = 'cfde2e'
const DAY_MS = 86_400_000
/**
 * Sessions start within a second, and programs of the suites run for less than a second. The rest is reserve.
 */
const POLL_MS = 90_000

export interface StagedTenant {
  /** `sandbox-e2e-<8 hex>`. */
  id: string
  /** An API key of the tenant. */
  key: string
}

export interface Stage extends AsyncDisposable {
  target: Target
  fleet: Fleet
  provisioner: AgentcoreProvisioner
  /** Leftovers of runs of more than a day ago, deleted at the start. */
  swept: readonly GarbageLine[]
  /** Creates a tenant, with its own interpreters unless `provision` is false. */
  newTenant(options?: {
    policy?: Partial<TenantPolicy>
    caps?: Partial<TenantCaps>
    provision?: boolean
  }): Promise<StagedTenant>
  /** Runs Python on agentcore and waits for its end. */
  run(tenant: StagedTenant, source: string, more?: Partial<ExecutionRequestInput>): Promise<ExecutionResult>
  rows(tenantId: string): Promise<AuditRow[]>
  /** Calls the API as a tenant. */
  ask(as: StagedTenant, path: string): Promise<{ status: number; text: string }>
  /** Everything that the worker logged, at level debug. */
  workerLog(): string
}

/** Throws when something does not start, and leaves nothing then. */
export async function openStage(target: Target): Promise<Stage> {
  await using owned = new AsyncDisposableStack()
  const secrets = owned.adopt(await mkdtemp(path.join(os.tmpdir(), 'cofferdam-keys-')), (dir) =>
    rm(dir, { recursive: true, force: true }),
  )
  const keyFile = await writeKeys(secrets, target.credentials)
  const fleet = owned.use(await startFleet())
  const provisioner = owned.use(
    createAgentcoreProvisioner(
      agentcoreProvisionConfigSchema.parse({
        region: target.region,
        prefix: PREFIX,
        credentials_file: keyFile,
        ...target.provisioning,
      }),
      { rows: fleet.store.codeInterpreters, actor: 'agentcore-harness' },
    ),
  )
  const report = await provisioner.reconcile({ garbage: ({ age_ms: age }) => age > DAY_MS })
  const tenants: StagedTenant[] = []
  owned.defer(() => takeDown(provisioner, tenants))

  const configFile = path.join(secrets, 'cofferdam.config.yaml')
  const agentcore = { region: target.region, credentials_file: keyFile, ...target.backend }
  await writeFile(configFile, JSON.stringify({ backends: { agentcore } }))
  const worker = await fleet.startWorker({ COFFERDAM_CONFIG: configFile, COFFERDAM_LOG_LEVEL: 'debug' })
  // Runs before the tenants are deleted, because an interpreter in use by an execution cannot be deleted.
  owned.defer(() => fleet.stopWorkers())
  const api = await fleet.runApi()
  const call = (as: StagedTenant, method: string, route: string): Promise<Response> =>
    fetch(`${api.url}${route}`, { method, headers: { authorization: `Bearer ${as.key}` } })
  // Runs before the worker stops, because only a worker can end what a session keeps at the service.
  owned.defer(() => endSessions(call, tenants))

  const resources = owned.move()
  return {
    target,
    fleet,
    provisioner,
    swept: (report?.garbage ?? []).filter(({ action }) => action === 'deleted'),
    async newTenant({ policy = {}, caps = {}, provision = true } = {}) {
      const id = `sandbox-e2e-${randomBytes(4).toString('hex')}`
      await fleet.createTenant(id, { policy, caps: { tenant_daily: 100, agent_hourly: 100, ...caps } })
      const { key } = await fleet.store.keys.create({ tenant_id: id }, 'agentcore-harness')
      tenants.push({ id, key })
      if (provision) await provisionOrThrow(provisioner, id)
      return { id, key }
    },
    run: (tenant, source, more = {}) =>
      fleet.client.run(
        {
          tenant_id: tenant.id,
          agent_id: 'agent',
          user_id: `user-of-${tenant.id}`,
          backend: 'agentcore',
          program: { type: 'script', language: 'python', source },
          ...more,
        },
        { timeoutMs: POLL_MS },
      ),
    rows: async (tenantId) => (await fleet.store.listAudit({ tenantId, limit: 500 })).rows,
    async ask(as, route) {
      const response = await call(as, 'GET', route)
      return { status: response.status, text: await response.text() }
    },
    workerLog: () => worker.log(),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  }
}

async function provisionOrThrow(provisioner: AgentcoreProvisioner, tenantId: string): Promise<void> {
  const environments = interpretersFor(['default-public'])
  const report = await provisioner.reconcile({ tenantId, request: [{ tenantId, environments }] })
  const bad = report?.interpreters.find(({ state }) => state !== 'ready')
  if (report === null || bad !== undefined)
    throw new Error(`tenant ${tenantId} was not provisioned: ${bad?.detail ?? 'another process is at it'}`)
}

async function endSessions(
  call: (as: StagedTenant, method: string, route: string) => Promise<Response>,
  tenants: readonly StagedTenant[],
): Promise<void> {
  for (const tenant of tenants) {
    const { sessions } = (await (await call(tenant, 'GET', '/v1/sessions')).json()) as {
      sessions: { backend: string; key: string }[]
    }
    for (const { backend, key } of sessions)
      await call(tenant, 'DELETE', `/v1/backends/${backend}/sessions/${key}`)
  }
}

/** Deletes every tenant, even if one of them fails. Then throws the failures, if there were any. */
async function takeDown(provisioner: AgentcoreProvisioner, tenants: readonly StagedTenant[]): Promise<void> {
  const failures: unknown[] = []
  for (const { id } of tenants) await provisioner.remove(id).catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw new AggregateError(failures, 'not everything was taken down')
}

async function writeKeys(folder: string, { accessKeyId, secretAccessKey, sessionToken }: Credentials) {
  const file = path.join(folder, 'credentials')
  const token = sessionToken === undefined ? '' : `aws_session_token = ${sessionToken}\n`
  await writeFile(
    file,
    `[default]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n${token}`,
  )
  await chmod(file, 0o600)
  return file
}
