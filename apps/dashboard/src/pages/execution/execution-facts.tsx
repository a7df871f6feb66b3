import type { AuditRow, ExecutionState } from '@cofferdam/client'
import { pageAddress } from '../../address/address.ts'
import { jaegerLink } from '../../parts/jaeger-link.tsx'
import { Facts, Panel } from '../../parts/panel.tsx'
import { When } from '../../parts/when.tsx'

/** A value that leads to the executions that share it. */
function Shared({ name, value, words }: { name: string; value: string; words?: string }) {
  return (
    <a href={pageAddress('/executions', { [name]: value })} title={value}>
      {words ?? (value.length > 40 ? `${value.slice(0, 12)}…` : value)}
    </a>
  )
}

const shared = (name: string, value: string | null | undefined) =>
  value === null || value === undefined ? null : <Shared name={name} value={value} />

/** Whose execution it is and where it ran. Many values link to the other executions that share them. */
export function ExecutionFacts({ state, rows }: { state: ExecutionState; rows: readonly AuditRow[] }) {
  const row = rows[0]
  const { result } = state
  const traceId = result?.trace_id ?? row?.trace_id
  const jaeger = jaegerLink(traceId, `${traceId?.slice(0, 12)}… ↗`)
  const backend = result?.backend ?? row?.backend ?? state.backend
  return (
    <Panel title="Details">
      <Facts
        of={[
          ['Execution', <span class="mono small">{state.execution_id}</span>],
          ['Tenant', <a href={pageAddress('/executions', { tenant: state.tenant_id })}>{state.tenant_id}</a>],
          ['Agent', shared('agent_id', state.agent_id)],
          ['User', shared('user_id', row?.user_id)],
          ['Run', shared('run_id', row?.run_id)],
          ['Tool call', row?.tool_call_id],
          ['Template', shared('template_id', row?.template_id)],
          ['Enqueued', <When at={state.enqueued_at} />],
          ['Backend', shared('backend', backend)],
          ['Isolation', result?.isolation],
          ['Vendor name', result?.vendor_ref],
          [
            'Session',
            result?.session && (
              <>
                <Shared name="session_id" value={result.session.id} />
                {result.session.fresh && ', new'}
              </>
            ),
          ],
          ['Interpreter', result?.session?.interpreter],
          ['Kind', shared('program_kind', state.program_kind)],
          ['Source', row?.invocation_source],
          ['Program', shared('code_hash', row?.executed_code_hash)],
          ['Trace', jaeger ?? shared('trace_id', traceId)],
          ['Same trace', jaeger && <Shared name="trace_id" value={traceId ?? ''} words="all executions" />],
          [
            'Hosts reached',
            row !== undefined && row.outbound_hosts.length > 0
              ? row.outbound_hosts.map((host) => (
                  <div key={host}>
                    <Shared name="outbound_host" value={host} />
                  </div>
                ))
              : null,
          ],
          ['Variables dropped', result?.env_dropped?.join(', ')],
          ['Callback', state.callback && `${state.callback.state} after ${state.callback.attempts} attempts`],
          ['Callback error', state.callback?.last_error],
          ['Secrets redacted', row !== undefined && row.redaction_count > 0 ? row.redaction_count : null],
        ]}
      />
    </Panel>
  )
}
