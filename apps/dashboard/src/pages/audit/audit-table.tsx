import type { AuditRow } from '@cofferdam/client'
import { withQuery } from '../../address/address.ts'
import { Cut } from '../../parts/cut.tsx'
import { ExecutionLink } from '../../parts/execution-link.tsx'
import { Empty } from '../../parts/problem.tsx'
import { StandingDot } from '../../parts/standing-dot.tsx'
import { When } from '../../parts/when.tsx'
import { cost, duration } from '../../words/figures.ts'

const HEADS = ['Ending', 'Execution', 'Tenant', 'Agent', 'User', 'Program', 'Hosts reached']
const FIGURES = ['Ran', 'Cost', 'Ended']

export function AuditTable({ rows }: { rows: readonly AuditRow[] }) {
  return (
    <div class="table-frame">
      {rows.length === 0 ? (
        <Empty title="No attempt matches.">A row is written when an attempt ends.</Empty>
      ) : (
        <table class="rows cards">
          <thead>
            <tr>
              {HEADS.map((head) => (
                <th key={head}>{head}</th>
              ))}
              {FIGURES.map((head) => (
                <th key={head} class="figure">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <Row key={`${row.execution_id} ${row.attempt}`} row={row} />
            ))}
          </tbody>
        </table>
      )}
    </div>
  )
}

function Row({ row }: { row: AuditRow }) {
  const { executed_code_hash: hash } = row
  return (
    <tr>
      <td>
        <StandingDot status="ended" ending={row.ending} />
      </td>
      <td class="nowrap">
        <ExecutionLink id={row.execution_id} isRow />
        {row.attempt > 1 && <span class="badge">attempt {row.attempt}</span>}
      </td>
      <td>
        <Cut text={row.tenant_id} />
      </td>
      <td>
        <Cut text={row.agent_id} />
      </td>
      <td>{row.user_id !== null && <Cut text={row.user_id} />}</td>
      <td>
        <a class="mono" href={withQuery({ code_hash: hash, cursor: null })} title={hash}>
          {hash.slice(0, 8)}
        </a>
      </td>
      <td>{row.outbound_hosts.length > 0 && <Cut text={row.outbound_hosts.join(', ')} />}</td>
      <td class="figure" data-name="ran">
        {duration(row.duration_ms)}
      </td>
      <td class="figure" data-name="cost">
        {row.cost === null ? '–' : cost(row.cost)}
      </td>
      <td class="figure nowrap">
        <When at={row.finished_at} />
      </td>
    </tr>
  )
}
