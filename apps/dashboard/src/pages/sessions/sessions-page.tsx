import type { Operations } from '@cofferdam/client'
import { pageAddress, queryValue, withQuery } from '../../address/address.ts'
import { read } from '../../api/call.ts'
import { useResource } from '../../api/use-resource.ts'
import { PageHead } from '../../parts/page-head.tsx'
import { Empty } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { OfTenant } from '../../parts/tenant-needed.tsx'
import { When } from '../../parts/when.tsx'
import { SessionPage } from './session-page.tsx'
import { SessionState } from './session-state.tsx'

export type Session = Operations['listSessions']['result']['sessions'][number]

const EVERY_MS = 5000

/** The sandboxes that executions share, or one of them. */
export function SessionsPage({ rest }: { rest: readonly string[] }) {
  const [backend, key] = rest
  if (backend !== undefined && key !== undefined)
    return (
      <>
        <nav class="crumbs" aria-label="Path">
          <a href={pageAddress('/sessions')}>Sessions</a> <span aria-hidden="true">/</span> {backend}
        </nav>
        <PageHead title={key} />
        <OfTenant what="Sessions">
          {(tenantId) => <SessionPage tenantId={tenantId} backend={backend} name={key} />}
        </OfTenant>
      </>
    )
  return (
    <>
      <PageHead title="Sessions" />
      <OfTenant what="Sessions">{(tenantId) => <SessionList tenantId={tenantId} />}</OfTenant>
    </>
  )
}

/** The address of a session's page. The key may contain any characters, so it is encoded. */
const addressOf = ({ backend, key }: Session): string =>
  pageAddress(`/sessions/${encodeURIComponent(backend)}/${encodeURIComponent(key)}`)

function SessionList({ tenantId }: { tenantId: string }) {
  const cursor = queryValue('cursor')
  const sessions = useResource(
    `${tenantId} ${cursor}`,
    (signal) =>
      read<Operations['listSessions']['result']>('/v1/sessions', {
        query: { tenant_id: tenantId, cursor },
        signal,
      }),
    EVERY_MS,
  )
  return (
    <ResourceView of={sessions} what="the sessions" lines={8}>
      {(data) =>
        data.sessions.length === 0 ? (
          <div class="table-frame">
            <Empty title="No session has a sandbox now.">
              An execution with <code>session.key</code> starts one.
            </Empty>
          </div>
        ) : (
          <>
            <div class="table-frame">
              <table class="rows cards">
                <thead>
                  <tr>
                    <th>State</th>
                    <th>Key</th>
                    <th>Backend</th>
                    <th>Keeps</th>
                    <th>Last execution</th>
                    <th class="figure">Used</th>
                    <th class="figure">May end</th>
                  </tr>
                </thead>
                <tbody>
                  {data.sessions.map((session) => (
                    <SessionRow key={`${session.backend} ${session.key}`} session={session} />
                  ))}
                </tbody>
              </table>
            </div>
            {data.next_cursor !== null && (
              <nav class="pager" aria-label="Pages of the list">
                <a class="button" href={withQuery({ cursor: data.next_cursor })}>
                  Older →
                </a>
              </nav>
            )}
          </>
        )
      }
    </ResourceView>
  )
}

function SessionRow({ session }: { session: Session }) {
  const last = session.last_execution_id
  return (
    <tr>
      <td>
        <SessionState state={session.state} />
      </td>
      <td>
        <a class="cut" href={addressOf(session)} data-row-link title={session.key}>
          {session.key}
        </a>
      </td>
      <td>{session.backend}</td>
      <td data-name="keeps">{session.scope}</td>
      <td>
        {last !== null && (
          <a class="mono" href={pageAddress(`/executions/${last}`)} title={last}>
            …{last.slice(-8)}
          </a>
        )}
      </td>
      <td class="figure" data-name="used">
        <When at={session.used_at} />
      </td>
      <td class="figure" data-name="may end">
        <When at={session.idle_at} />
      </td>
    </tr>
  )
}
