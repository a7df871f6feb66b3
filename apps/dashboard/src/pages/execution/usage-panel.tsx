import type { AuditRow, CapsUse, ExecutionResult } from '@cofferdam/client'
import { Facts, Panel } from '../../parts/panel.tsx'
import { UseBar } from '../../parts/use-bar.tsx'
import { now, When } from '../../parts/when.tsx'
import { cost, count, duration, size } from '../../words/figures.ts'

const CAPS: ReadonlyArray<readonly [keyof CapsUse, string]> = [
  ['tenant_daily', 'Tenant, today'],
  ['agent_hourly', 'Agent, this hour'],
  ['tenant_daily_cpu', 'CPU seconds, today'],
  ['tenant_daily_cost', 'Cost, today'],
]

const MIB = 1_048_576

type Figure = number | null | undefined

/** Name, used amount, limit, and the format of both. Not every figure is measured or limited. */
const measuresOf = ({
  usage,
  limits,
  ...result
}: ExecutionResult): ReadonlyArray<readonly [string, Figure, Figure, (figure: number) => string]> => [
  ['Run time', usage?.wall_ms, limits?.hard_timeout_ms, duration],
  ['CPU time', usage?.cpu_ms, limits?.cpu_time_ms, duration],
  ['Peak memory', usage?.peak_memory_bytes, limits && limits.memory_mib * MIB, size],
  ['Disk', usage?.disk_bytes, limits && limits.disk_mib * MIB, size],
  ['Processes', usage?.pids_peak, limits?.pids, count],
  ['stdout', result.stdout_bytes, limits?.stdout_bytes, size],
  ['stderr', result.stderr_bytes, limits?.stderr_bytes, size],
]

const orNull = <T,>(value: T | null | undefined, words: (value: T) => string): string | null =>
  value === null || value === undefined ? null : words(value)

/** How much of each limit the execution used, what it cost, and how full the caps were at that moment. */
export function UsagePanel({ result, row }: { result: ExecutionResult; row: AuditRow | null }) {
  const { usage, caps } = result
  const measures = usage === null ? [] : measuresOf(result)
  return (
    <>
      <Panel title="Use and cost">
        {usage === null && <p class="muted small">Nothing ran.</p>}
        <ul class="caps">
          {measures.map(([words, used, limit, write]) =>
            used == null || limit == null ? null : (
              <UseBar key={words} words={words} used={used} limit={limit} write={write} />
            ),
          )}
        </ul>
        <Facts
          of={[
            ...measures
              .filter(([, , limit]) => limit == null)
              .map(([words, used, , write]) => [words, orNull(used, write)] as const),
            ['CPU charged', orNull(usage?.charged_cpu_ms, duration)],
            ['Sandbox start', orNull(row?.session_start_ms, duration)],
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
                <UseBar key={name} words={words} used={cap.used} limit={cap.limit}>
                  <span class="muted small">
                    {Date.parse(cap.resets_at) > now.value ? 'resets' : 'was reset'}{' '}
                    <When at={cap.resets_at} />
                  </span>
                </UseBar>
              )
            })}
          </ul>
        </Panel>
      )}
    </>
  )
}
