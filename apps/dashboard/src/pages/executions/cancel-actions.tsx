import { useState } from 'preact/hooks'
import { isAdmin } from '../../api/session.ts'
import { counted } from '../../words/figures.ts'
import { CancelDialog } from './cancel-dialog.tsx'
import { cancelMany, cancelTenant } from './cancel-many.ts'
import type { ListQuery } from './filters.ts'
import type { Row } from './row.ts'

/** What cancelling these rows will do. */
export function previewOf(rows: readonly Row[]): string {
  const live = rows.filter(({ status }) => status !== 'ended')
  const running = live.filter(({ status }) => status === 'running').length
  const waiting = live.length - running
  const parts = [
    waiting > 0 && `${counted(waiting, 'execution')} that ${waiting === 1 ? 'waits' : 'wait'} will not run.`,
    running > 0 &&
      `${counted(running, 'running execution')} will be told to stop; the output so far is kept.`,
    rows.length > live.length && `${rows.length - live.length} of the selected ended meanwhile.`,
  ]
  return parts.filter((part) => part !== false).join(' ')
}

/** The bar of a selection, and the button for everything of a tenant or agent. */
export function CancelActions(props: {
  query: ListQuery
  selected: readonly Row[]
  onClear: () => void
  onDone: () => void
}) {
  const [open, setOpen] = useState<'selected' | 'tenant' | null>(null)
  const { selected } = props
  const { tenant_id: tenantId, agent_id: agentId, ...others } = props.query.filters
  const isWholeTenant = isAdmin.value && tenantId !== undefined && Object.keys(others).length === 0
  const whose = agentId === undefined ? tenantId : `${agentId} of ${tenantId}`
  const close = (): void => {
    setOpen(null)
    props.onDone()
  }
  return (
    <>
      {selected.length > 0 && (
        <div class="selection-bar">
          <strong role="status">{counted(selected.length, 'selected', 'selected')}</strong>
          <button type="button" class="button danger" onClick={() => setOpen('selected')}>
            Cancel selected
          </button>
          <button type="button" class="button" onClick={props.onClear}>
            Clear
          </button>
        </div>
      )}
      {isWholeTenant && selected.length === 0 && (
        <button type="button" class="button danger" onClick={() => setOpen('tenant')}>
          Cancel all of {whose}
        </button>
      )}
      {open === 'selected' && (
        <CancelDialog
          title="Cancel selected"
          preview={previewOf(selected)}
          total={selected.length}
          run={(reason, tell, signal) =>
            cancelMany(
              selected.map(({ id }) => id),
              reason,
              tell,
              signal,
            )
          }
          onClose={close}
        />
      )}
      {open === 'tenant' && tenantId !== undefined && (
        <CancelDialog
          title={`Cancel all of ${whose}`}
          preview={
            `Everything that ${whose} has waiting will not run, and what runs will be told to stop. ` +
            'What is enqueued from now on is not touched: set a cap to 0 first if nothing new may start.'
          }
          total={null}
          run={(reason, tell, signal) => cancelTenant(tenantId, agentId, reason, tell, signal)}
          onClose={close}
        />
      )}
    </>
  )
}
