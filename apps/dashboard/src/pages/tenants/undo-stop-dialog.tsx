import type { Operations, TenantCaps } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { call, read } from '../../api/call.ts'
import { asFailure, Failure } from '../../api/failure.ts'
import { useResource } from '../../api/use-resource.ts'
import { Modal } from '../../parts/modal.tsx'
import { Problem } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { When } from '../../parts/when.tsx'
import { count } from '../../words/figures.ts'
import { tenantPath } from './tenant.ts'
import { valueBefore, type ValueBefore } from './value-before.ts'

/** Changes of caps that are looked through for the stop. */
const MOST_EVENTS = '500'

const capWords = (cap: number | null): string => (cap === null ? 'the default of the fleet' : count(cap))

/** Gives the daily cap the value that it had before the stop. The value comes from the policy's events. */
export function UndoStopDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<Failure | null>(null)
  const found = useResource(id, async (signal) => {
    const { events } = await read<Operations['listPolicyEvents']['result']>(tenantPath(id, 'policy/events'), {
      query: { event_type: 'caps', limit: MOST_EVENTS },
      signal,
    })
    return { before: valueBefore(events) }
  })
  const undo = async ({ cap }: ValueBefore): Promise<void> => {
    setBusy(true)
    setFailure(null)
    try {
      const caps = await read<TenantCaps>(tenantPath(id, 'caps'))
      // If the cap already is `cap`, this repeats an undo whose first answer said that it is not live yet.
      if (caps.tenant_daily !== 0 && caps.tenant_daily !== cap) throw changedMeanwhile(caps.tenant_daily)
      await call<unknown>('PATCH', tenantPath(id, 'caps'), { body: { tenant_daily: cap } })
      onClose()
    } catch (error) {
      setFailure(asFailure(error))
      setBusy(false)
    }
  }
  const before = found.data?.before ?? null
  return (
    <Modal title={`Undo the stop of ${id}`} onClose={onClose}>
      <div class="modal-body">
        <ResourceView of={found} what="the value before" lines={2}>
          {({ before: value }) =>
            value === null ? (
              <p>No event tells what the daily cap was before. Set it among the caps.</p>
            ) : (
              <p>
                The daily cap becomes <strong>{capWords(value.cap)}</strong> again, as it was before{' '}
                <code>{value.actor}</code> set it to 0 <When at={value.at} />. What waits starts again.
              </p>
            )
          }
        </ResourceView>
        {failure !== null && <Problem failure={failure} />}
        <div class="modal-actions">
          <button type="button" class="button" onClick={onClose}>
            Leave it stopped
          </button>
          {before !== null && (
            <button type="button" class="button primary" disabled={isBusy} onClick={() => void undo(before)}>
              {isBusy ? 'Undoing' : 'Undo the stop'}
            </button>
          )}
        </div>
      </div>
    </Modal>
  )
}

const changedMeanwhile = (cap: number | null): Failure =>
  new Failure({
    code: 'conflict',
    status: 409,
    message: `Somebody set the daily cap to ${capWords(cap)} meanwhile.`,
    hint: 'Nothing was changed. The caps on the page show what holds now.',
  })
