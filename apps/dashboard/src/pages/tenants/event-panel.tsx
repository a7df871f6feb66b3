import type { Operations, PolicyEvent } from '@cofferdam/client'
import { queryValue } from '../../address/address.ts'
import { read } from '../../api/call.ts'
import { useResource } from '../../api/use-resource.ts'
import { OlderAndNewest } from '../../parts/older-and-newest.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Empty } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { When } from '../../parts/when.tsx'
import { changedLines } from './event-changes.ts'
import { tenantPath } from './tenant.ts'

const ROWS = '20'
const EVERY_MS = 15_000

/** Who changed or did what. `version` changes when this page changed something, so that it shows at once. */
export function EventPanel({ id, version }: { id: string; version: number }) {
  const cursor = queryValue('cursor')
  const events = useResource(
    `${id} ${cursor} ${version}`,
    (signal) =>
      read<Operations['listPolicyEvents']['result']>(tenantPath(id, 'policy/events'), {
        query: { limit: ROWS, cursor },
        signal,
      }),
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
                <EventRow key={event.id} event={event} />
              ))}
            </ol>
            <OlderAndNewest cursor={cursor} next={data.next_cursor} />
          </>
        )}
      </ResourceView>
    </Panel>
  )
}

function EventRow({ event }: { event: PolicyEvent }) {
  const way = event.via === 'ui' ? 'dashboard' : event.source
  return (
    <li>
      <p class="event-head">
        <strong>{event.event_type.replaceAll('_', ' ')}</strong>
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
