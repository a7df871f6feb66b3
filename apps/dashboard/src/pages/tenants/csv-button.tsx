import type { UsageReport } from '@cofferdam/client'
import { csvOf } from './csv.ts'

const COLUMNS = ['calls', 'failed', 'cpu_ms', 'run_ms', 'gb_seconds', 'cost'] as const

/** Downloads a report of use as CSV, with the units of the API. */
export function CsvButton({ report }: { report: UsageReport }) {
  const save = (): void => {
    const rows = report.groups.map((group) => [group.key ?? '', ...COLUMNS.map((name) => group[name])])
    const url = URL.createObjectURL(
      new Blob([csvOf([report.group_by, ...COLUMNS], rows)], { type: 'text/csv' }),
    )
    const link = document.createElement('a')
    link.href = url
    link.download = `usage-${report.tenant_id}-by-${report.group_by}.csv`
    link.click()
    // Revokes the URL later, because the browser reads it only after this event.
    setTimeout(() => URL.revokeObjectURL(url), 10_000)
  }
  return (
    <button type="button" class="button" onClick={save}>
      CSV
    </button>
  )
}
