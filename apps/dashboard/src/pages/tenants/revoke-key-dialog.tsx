import type { ApiKey } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { call } from '../../api/call.ts'
import { asFailure, type Failure } from '../../api/failure.ts'
import { Modal } from '../../parts/modal.tsx'
import { Problem } from '../../parts/problem.tsx'
import { When } from '../../parts/when.tsx'
import { tenantPath } from './tenant.ts'

/** Asks before a key is revoked, because the dashboard cannot undo that. */
export function RevokeKeyDialog({ id, of, onClose }: { id: string; of: ApiKey; onClose: () => void }) {
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<Failure | null>(null)
  const revoke = async (): Promise<void> => {
    setBusy(true)
    setFailure(null)
    try {
      await call<void>('DELETE', tenantPath(id, `keys/${encodeURIComponent(of.id)}`))
      onClose()
    } catch (error) {
      setFailure(asFailure(error))
      setBusy(false)
    }
  }
  return (
    <Modal title={`Revoke ${of.id}`} onClose={onClose}>
      <div class="modal-body">
        <p>
          Calls with <strong>{of.label}</strong> are refused from then on, within 5 seconds everywhere. What
          it enqueued runs. It was {of.last_used_at === null ? 'never used' : 'used '}
          {of.last_used_at !== null && <When at={of.last_used_at} />}.
        </p>
        {failure !== null && <Problem failure={failure} />}
        <div class="modal-actions">
          <button type="button" class="button" onClick={onClose}>
            Keep it
          </button>
          <button type="button" class="button danger" disabled={isBusy} onClick={() => void revoke()}>
            {isBusy ? 'Revoking' : 'Revoke it'}
          </button>
        </div>
      </div>
    </Modal>
  )
}
