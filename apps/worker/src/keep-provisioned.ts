/**
 * Reconciles AgentCore interpreters, in one process of the fleet at a time (a lock in Postgres). Deletes
 * garbage only if an earlier round of this process found it too.
 */
import {
  createAgentcoreProvisioner,
  interpretersFor,
  type AgentcoreProvisionConfig,
  type ProvisionReport,
} from '@cofferdam/backends'
import type { Store } from '@cofferdam/store'
import type { Logger } from '@cofferdam/telemetry'

/**
 * A round is aborted after this time, because it is then waiting for a dead service. The next round
 * continues.
 */
const ROUND_MS = 600_000

/** Starts the first round at once. */
export function keepProvisioned(deps: {
  config: AgentcoreProvisionConfig
  everyMs: number
  store: Pick<Store, 'codeInterpreters' | 'tenants'>
  actor: string
  logger: Pick<Logger, 'info' | 'warn'>
  onError(error: unknown): void
}): AsyncDisposable {
  const { config, store, actor } = deps
  const provisioner = createAgentcoreProvisioner(config, { rows: store.codeInterpreters, actor })
  const closing = new AbortController()
  let found: ReadonlySet<string> = new Set()

  const round = async (): Promise<void> => {
    try {
      const report = await provisioner.reconcile({
        request: config.tenants === 'all' ? await everyTenant(store) : [],
        garbage: config.collect_garbage ? ({ interpreter_id: id }) => found.has(id) : 'keep',
        signal: AbortSignal.any([closing.signal, AbortSignal.timeout(ROUND_MS)]),
      })
      if (report === null) return
      found = new Set(
        (report.garbage ?? [])
          .filter(({ action }) => action === 'would-delete')
          .map(({ interpreter_id: id }) => id),
      )
      tell(report)
    } catch (error) {
      if (!closing.signal.aborted) deps.onError(error)
    }
  }

  function tell({ interpreters, garbage }: ProvisionReport): void {
    for (const line of interpreters) {
      if (line.action === 'failed') deps.logger.warn(line, 'an interpreter is not as it should be')
      else if (line.action === 'created' || line.action === 'adopted')
        deps.logger.info(line, 'an interpreter was provisioned')
    }
    for (const line of garbage ?? [])
      if (line.action === 'deleted') deps.logger.warn(line, 'deleted an interpreter that no row names')
  }

  let running: Promise<void> | null = null
  const begin = (): void => {
    // Rounds do not overlap.
    running ??= round().finally(() => (running = null))
  }
  begin()
  const timer = setInterval(begin, deps.everyMs)
  timer.unref()
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      closing.abort()
      await running
      await provisioner[Symbol.asyncDispose]()
    },
  }
}

async function everyTenant(store: Pick<Store, 'tenants'>) {
  const wanted = []
  for (let after: string | undefined; ;) {
    const page = await store.tenants.list(after === undefined ? {} : { after })
    for (const { policy } of page)
      if (policy.sandbox_enabled)
        wanted.push({ tenantId: policy.tenant_id, environments: interpretersFor(policy.environments) })
    after = page.at(-1)?.policy.tenant_id
    if (after === undefined) return wanted
  }
}
