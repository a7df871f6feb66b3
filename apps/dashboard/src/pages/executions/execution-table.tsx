import { ExecutionRow } from './execution-row.tsx'
import type { Row } from './row.ts'

/** The rows, with boxes to select live ones if the key may cancel. */
export function ExecutionTable(props: {
  rows: readonly Row[]
  showsTenant: boolean
  /** Null where nothing can be selected. */
  selected: ReadonlySet<string> | null
  onSelect: (ids: ReadonlySet<string>) => void
}) {
  const { rows, selected } = props
  const live = rows.filter(({ status }) => status !== 'ended').map(({ id }) => id)
  const select = (id: string, on: boolean): void => {
    const next = new Set(selected)
    if (on) next.add(id)
    else next.delete(id)
    props.onSelect(next)
  }
  const isAll = live.length > 0 && selected !== null && live.every((id) => selected.has(id))
  return (
    <div class="table-frame">
      <table class="rows cards executions">
        <thead>
          <tr>
            {selected !== null && (
              <th class="pick">
                <input
                  type="checkbox"
                  aria-label="Select all that wait or run"
                  checked={isAll}
                  disabled={live.length === 0}
                  onChange={(event) => props.onSelect(new Set(event.currentTarget.checked ? live : []))}
                />
              </th>
            )}
            <th>State</th>
            <th>ID</th>
            {props.showsTenant && <th>Tenant</th>}
            <th>Agent</th>
            <th>Backend</th>
            <th>Wait and run</th>
            <th class="figure">Exit</th>
            <th class="figure">Cost</th>
            <th class="figure">Enqueued</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <ExecutionRow
              key={row.id}
              row={row}
              showsTenant={props.showsTenant}
              selected={selected === null ? null : selected.has(row.id)}
              onSelect={select}
            />
          ))}
        </tbody>
      </table>
    </div>
  )
}
