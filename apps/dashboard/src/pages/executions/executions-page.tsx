import { useState } from 'preact/hooks'
import { withQuery } from '../../address/address.ts'
import { isAdmin, mayChange } from '../../api/session.ts'
import { OlderAndNewest } from '../../parts/older-and-newest.tsx'
import { PageHead } from '../../parts/page-head.tsx'
import { Empty, Loading, Problem } from '../../parts/problem.tsx'
import { count } from '../../words/figures.ts'
import { ExecutionPage } from '../execution/execution-page.tsx'
import { CancelActions } from './cancel-actions.tsx'
import { ExecutionTable } from './execution-table.tsx'
import { FilterBar } from './filter-bar.tsx'
import { canBeLive, listQuery, type ListQuery } from './filters.ts'
import { MOST_ARRIVED } from './row-list.ts'
import { useRows, type Rows } from './use-rows.ts'

/** The list, or the execution that the address names. */
export function ExecutionsPage({ rest }: { rest: readonly string[] }) {
  const [id] = rest
  return id === undefined ? <ExecutionList /> : <ExecutionPage key={id} id={id} />
}

function ExecutionList() {
  const query = listQuery()
  const rows = useRows(query)
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const shown = rows.list?.shown ?? []
  return (
    <>
      <PageHead title="Executions">
        {mayChange.value && (
          <CancelActions
            query={query}
            selected={shown.filter(({ id }) => selected.has(id))}
            onClear={() => setSelected(new Set())}
            onDone={() => setSelected(new Set())}
          />
        )}
      </PageHead>
      <FilterBar query={query} />
      {rows.failure !== null && rows.list !== null && (
        <p class="stale" role="status">
          Not up to date: {rows.failure.message}
        </p>
      )}
      {rows.list === null ? (
        <Waiting rows={rows} />
      ) : (
        <>
          <Arrived rows={rows} />
          {shown.length === 0 ? (
            <Nothing query={query} />
          ) : (
            <ExecutionTable
              rows={shown}
              showsTenant={isAdmin.value && query.filters['tenant_id'] === undefined}
              selected={mayChange.value ? selected : null}
              onSelect={setSelected}
            />
          )}
        </>
      )}
      <OlderAndNewest cursor={query.cursor} next={rows.next} />
    </>
  )
}

const Waiting = ({ rows }: { rows: Rows }) =>
  rows.failure === null ? (
    <>
      <div class="arrived" />
      <div class="table-frame">
        <Loading what="the executions" lines={12} />
      </div>
    </>
  ) : (
    <Problem failure={rows.failure} retry={rows.reload} />
  )

/** Keeps its height, so that the rows stay where they are when something arrives. */
function Arrived({ rows }: { rows: Rows }) {
  const arrived = rows.list?.arrived.length ?? 0
  const words = arrived >= MOST_ARRIVED ? `${MOST_ARRIVED} or more new` : `${count(arrived)} new`
  return (
    <div class="arrived" role="status">
      {arrived > 0 && (
        <button type="button" class="button primary" onClick={rows.letIn}>
          ↑ {words}
        </button>
      )}
      {rows.moreLive && (
        <a href={withQuery({ status: 'live' })}>More are waiting or running: show all live</a>
      )}
    </div>
  )
}

function Nothing({ query }: { query: ListQuery }) {
  const isFiltered = query.within !== null || Object.keys(query.filters).some((name) => name !== 'tenant_id')
  return (
    <div class="table-frame">
      {isFiltered ? (
        <Empty title="No execution matches.">
          Remove a filter, or choose a longer time.
          {canBeLive(query.filters) ? '' : ' Executions that still run have no ending to filter by.'}
        </Empty>
      ) : query.status === 'live' ? (
        <Empty title="Nothing waits or runs." />
      ) : (
        <Empty title="Nothing has run yet.">
          <code>cofferdam run --tenant demo 'print(1 + 1)'</code> runs a first program.
        </Empty>
      )}
    </div>
  )
}
