import { pageAddress } from '../../address/address.ts'
import { CopyButton } from '../../parts/copy-button.tsx'
import { StandingDot } from '../../parts/standing-dot.tsx'
import { When } from '../../parts/when.tsx'
import { cost } from '../../words/figures.ts'
import type { Row } from './row.ts'
import { WaitRunBar } from './wait-run-bar.tsx'

/** The last digits of an ID. They tell executions apart; the first ones are their time. */
const shortId = (id: string): string => `…${id.slice(-8)}`

export function ExecutionRow(props: {
  row: Row
  showsTenant: boolean
  /** Null where nothing can be selected. */
  selected: boolean | null
  onSelect: (id: string, on: boolean) => void
}) {
  const { row } = props
  const isLive = row.status !== 'ended'
  return (
    <tr>
      {props.selected !== null && (
        <td class="pick">
          <input
            type="checkbox"
            aria-label={`Select ${shortId(row.id)}`}
            checked={props.selected}
            disabled={!isLive}
            onChange={(event) => props.onSelect(row.id, event.currentTarget.checked)}
          />
        </td>
      )}
      <td class="cell-state">
        <StandingDot status={row.status} ending={row.ending} />
        {row.attempt > 1 && <span class="badge">attempt {row.attempt}</span>}
      </td>
      <td class="nowrap cell-id">
        <a class="mono" href={pageAddress(`/executions/${row.id}`)} data-row-link title={row.id}>
          {shortId(row.id)}
        </a>
        <CopyButton text={row.id} label={`Copy ID ${shortId(row.id)}`} />
      </td>
      {props.showsTenant && (
        <td>
          <span class="cut" title={row.tenantId}>
            {row.tenantId}
          </span>
        </td>
      )}
      <td>
        <span class="cut" title={row.agentId}>
          {row.agentId}
        </span>
      </td>
      <td class="cell-backend">
        {row.backend !== null && (
          <span class="cut">
            {row.backend}
            {row.isolation !== null && <span class="muted"> · {row.isolation}</span>}
          </span>
        )}
      </td>
      <td class="wide cell-bar">
        <WaitRunBar row={row} />
      </td>
      <td class="figure cell-more">{row.exitCode ?? '–'}</td>
      <td class="figure cell-more">{row.cost === null ? '–' : cost(row.cost)}</td>
      <td class="figure nowrap cell-when">
        <When at={row.enqueuedAtMs} />
      </td>
    </tr>
  )
}
