import type { AuditRow, CapsUse, ExecutionResult } from '@cofferdam/client'
import { Facts, Panel } from '../../parts/panel.tsx'
import { now, When } from '../../parts/when.tsx'
import { cost, count, duration, size } from '../../words/figures.ts'

const CAPS: ReadonlyArray<readonly [keyof CapsUse, string]> = [
  ['tenant_daily', 'Tenant, today'],
  ['agent_hourly', 'Agent, this hour'],
  ['tenant_daily_cpu', 'CPU seconds, today'],
  ['tenant_daily_cost', 'Cost, today'],
]

const orNull = <T,>(value: T | null | undefined, words: (value: T) => string): string | null =>
  value === null || value === undefined ? null : words(value)

/** What it used, what that cost, and what was left of the caps then. */
export function UsagePanel({ result, row }: { result: ExecutionResult; row: AuditRow | null }) {
  const { usage, caps } = result
  return (
    <>
      <Panel title="Use and cost">
        {usage === null && <p class="muted small">Nothing ran.</p>}
        <Facts
          of={[
            ['Run time', orNull(usage?.wall_ms, duration)],
            ['Sandbox start', orNull(row?.session_start_ms, duration)],
            ['CPU time', orNull(usage?.cpu_ms, duration)],
            ['CPU charged', orNull(usage?.charged_cpu_ms, duration)],
            ['Peak memory', orNull(usage?.peak_memory_bytes, size)],
            ['Disk', orNull(usage?.disk_bytes, size)],
            ['Processes', orNull(usage?.pids_peak, count)],
            ['Read', orNull(usage?.read_bytes, size)],
            ['Written', orNull(usage?.write_bytes, size)],
            ['Memory × time', orNull(row?.charged_gb_seconds, (value) => `${value.toFixed(2)} GB s`)],
            ['Cost', orNull(usage?.cost ?? row?.cost, cost)],
            ['Charged', row === null ? null : row.quota_charged ? 'yes' : 'no'],
          ]}
        />
      </Panel>
      {caps !== null && (
        <Panel title="Caps at that moment">
          <ul class="caps">
            {CAPS.map(([name, words]) => {
              const cap = caps[name]
              return cap === undefined ? null : (
                <li key={name}>
                  <span>{words}</span>
                  <span class="number">
                    {count(cap.used)} of {count(cap.limit)}
                  </span>
                  <meter
                    aria-label={words}
                    min={0}
                    max={Math.max(cap.limit, 1)}
                    high={Math.max(cap.limit, 1) * 0.9}
                    value={Math.min(cap.used, cap.limit)}
                  />
                  <span class="muted small">
                    {Date.parse(cap.resets_at) > now.value ? 'resets' : 'was reset'}{' '}
                    <When at={cap.resets_at} />
                  </span>
                </li>
              )
            })}
          </ul>
        </Panel>
      )}
    </>
  )
}
