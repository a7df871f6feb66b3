import type { AuditRow, Operations } from '@cofferdam/client'
import { pageAddress } from '../../address/address.ts'
import { read } from '../../api/call.ts'
import { useResource } from '../../api/use-resource.ts'
import { Panel } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { ToneDot } from '../../parts/standing-dot.tsx'
import { mattersOf } from './attention.ts'
import type { Queue } from '../queue/queue.ts'

const EVERY_MS = 15_000
const HOUR_MS = 3_600_000
/** Endings that no program can cause. */
const OUR_FAULTS = ['worker_lost', 'sandbox_lost', 'provisioning']

/** Rows of the last hour that ended by a fault of the platform. At most 100 of each kind are counted. */
async function ownFaults(signal: AbortSignal): Promise<AuditRow[]> {
  const from = new Date(Date.now() - HOUR_MS).toISOString()
  const pages = await Promise.all(
    OUR_FAULTS.map((ending) =>
      read<Operations['listInvocations']['result']>('/v1/audit/invocations', {
        query: { ending, from, limit: '100' },
        signal,
      }),
    ),
  )
  return pages.flatMap(({ invocations }) => invocations)
}

/** Lists what needs attention, or says that nothing does. */
export function AttentionPanel({ queue }: { queue: Queue }) {
  const known = useResource(
    'attention',
    async (signal) => {
      const [{ backends }, faults] = await Promise.all([
        read<Operations['listBackends']['result']>('/v1/backends', { signal }),
        ownFaults(signal),
      ])
      return { backends, faults }
    },
    EVERY_MS,
  )
  const matters = mattersOf(queue, known.data?.backends ?? [], known.data?.faults ?? [])
  return (
    <Panel title="Needs attention" class="attention">
      {known.failure !== null && <Problem failure={known.failure} retry={known.reload} />}
      {known.data === null && known.failure === null && <p class="muted">Asking backends and audit rows</p>}
      {matters.length === 0 && known.data !== null && <ToneDot tone="ok">Nothing.</ToneDot>}
      <ul class="matters">
        {matters.map(({ tone, text, path, query }) => (
          <li key={text}>
            <span class={`standing tone-${tone}`}>
              <span class="dot" aria-hidden="true" />
            </span>
            {path === null ? text : <a href={pageAddress(path, query)}>{text}</a>}
          </li>
        ))}
      </ul>
    </Panel>
  )
}
