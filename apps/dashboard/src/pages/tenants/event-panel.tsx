import type { FleetEvent, Operations } from '@cofferdam/client'
import { pageAddress, queryValue } from '../../address/address.ts'
import { read } from '../../api/call.ts'
import { useResource } from '../../api/use-resource.ts'
import { OlderAndNewest } from '../../parts/older-and-newest.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Empty } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { When } from '../../parts/when.tsx'
import { changedLines } from './event-changes.ts'

const EVERY_MS = 15_000

/**
 * Who changed or did what. `version` changes when this page changed something, so that the new event is shown
 * at once.
 */
export function EventPanel(props: {
  /** The API’s list. */
  path: string
  query: Readonly<Record<string, string | null>>
  version?: number
  namesTenant?: boolean
}) {
  const { path, query } = props
  const cursor = queryValue('cursor')
  const events = useResource(
    JSON.stringify([path, query, cursor, props.version]),
    (signal) => read<Operations['listEvents']['result']>(path, { query: { ...query, cursor }, signal }),
    EVERY_MS,
  )
  return (
    <Panel title="Changes" class="flush">
      <ResourceView of={events} what="the changes" lines={6}>
        {(data) => (
          <>
            {data.events.length === 0 && <Empty title="Nothing was changed." />}
            <ol class="events">
              {data.events.map((event) => (
                <EventRow key={event.id} event={event} namesTenant={props.namesTenant === true} />
              ))}
            </ol>
            <OlderAndNewest cursor={cursor} next={data.next_cursor} />
          </>
        )}
      </ResourceView>
    </Panel>
  )
}

function EventRow({ event, namesTenant }: { event: FleetEvent; namesTenant: boolean }) {
  const way = event.via === 'ui' ? 'dashboard' : event.source
  return (
    <li>
      <p class="event-head">
        <strong>{event.event_type.replaceAll('_', ' ')}</strong>
        {namesTenant &&
          (event.tenant_id === null ? (
            <span class="muted">fleet</span>
          ) : (
            <a href={pageAddress(`/tenants/${event.tenant_id}`)}>{event.tenant_id}</a>
          ))}
        <code>{event.actor}</code>
        <span class="badge">{way}</span>
        <span class="muted small event-when">
          <When at={event.created_at} />
        </span>
      </p>
      <dl class="changes small">
        {changedLines(event.event_type, event.before, event.after).map(({ name, before, after }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="mono">
              {before !== null && <del>{before}</del>}
              {before !== null && after !== null && <span class="muted"> → </span>}
              {after !== null && <ins>{after}</ins>}
            </dd>
          </div>
        ))}
      </dl>
    </li>
  )
}
