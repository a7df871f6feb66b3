import type { Operations, Routine } from '@cofferdam/client'
import { pageAddress, queryValue } from '../../address/address.ts'
import { read } from '../../api/call.ts'
import { useResource } from '../../api/use-resource.ts'
import { Cut } from '../../parts/cut.tsx'
import { OlderAndNewest } from '../../parts/older-and-newest.tsx'
import { PageHead } from '../../parts/page-head.tsx'
import { Empty } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'

import { lookedAtTenant } from '../../parts/tenant-needed.tsx'
import { When } from '../../parts/when.tsx'
import { plainText } from '../../words/plain.ts'
import { EnabledDot } from './enabled-dot.tsx'
import { RoutinePage } from './routine-page.tsx'
import { scheduleWords } from './schedule-words.ts'

const EVERY_MS = 10_000
const HEADS = ['State', 'Name', 'Tenant', 'Schedule', 'If one still runs', 'Last run', 'Next run']

/** The list of routines, or one routine. */
export function RoutinesPage({ rest }: { rest: readonly string[] }) {
  const [id] = rest
  if (id !== undefined) return <RoutinePage key={id} id={id} />
  return (
    <>
      <PageHead title="Routines" />
      <RoutineList />
    </>
  )
}

function RoutineList() {
  const tenantId = lookedAtTenant()
  const cursor = queryValue('cursor')
  const routines = useResource(
    `${tenantId} ${cursor}`,
    (signal) =>
      read<Operations['listRoutines']['result']>('/v1/routines', {
        query: { tenant_id: tenantId, cursor },
        signal,
      }),
    EVERY_MS,
  )
  return (
    <ResourceView of={routines} what="the routines" lines={8}>
      {(data) => (
        <>
          <div class="table-frame">
            {data.routines.length === 0 ? (
              <Empty title="There are no routines.">
                <code>POST /v1/routines</code> creates one: a request, and when it runs.
              </Empty>
            ) : (
              <table class="rows cards">
                <thead>
                  <tr>
                    {HEADS.map((head) => (
                      <th key={head}>{head}</th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {data.routines.map((routine) => (
                    <RoutineRow key={routine.routine_id} routine={routine} />
                  ))}
                </tbody>
              </table>
            )}
          </div>
          <OlderAndNewest cursor={cursor} next={data.next_cursor} />
        </>
      )}
    </ResourceView>
  )
}

function RoutineRow({ routine }: { routine: Routine }) {
  const last = routine.last_run
  return (
    <tr>
      <td>
        <EnabledDot enabled={routine.enabled} />
      </td>
      <td>
        <a
          class="cut"
          href={pageAddress(`/routines/${routine.routine_id}`)}
          data-row-link
          title={plainText(routine.name)}
        >
          {plainText(routine.name)}
        </a>
      </td>
      <td>
        <Cut text={routine.tenant_id} />
      </td>
      <td class="wide">{scheduleWords(routine.schedule)}</td>
      <td data-name="if one still runs">{routine.concurrency}</td>
      <td data-name="last">
        {last === null ? (
          <span class="muted">never</span>
        ) : (
          <>
            {last.outcome} <When at={last.fired_at} />
          </>
        )}
      </td>
      <td data-name="next">
        <When at={routine.next_run_at} />
      </td>
    </tr>
  )
}
