import type { Operations } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { call } from '../../api/call.ts'
import { asFailure, type Failure } from '../../api/failure.ts'
import { Modal } from '../../parts/modal.tsx'
import { Problem } from '../../parts/problem.tsx'
import { ShownOnce } from './shown-once.tsx'
import { tenantPath } from './tenant.ts'

type Made = Operations['createKey']['result']

/** Makes a key and shows it once. It is in this dialog only, and gone when that closes. */
export function NewKeyDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const [made, setMade] = useState<Made | null>(null)
  return (
    <Modal title={made === null ? 'Make a key' : 'The new key'} onClose={onClose}>
      {made === null ? (
        <Ask id={id} onMade={setMade} onClose={onClose} />
      ) : (
        <ShownOnce secret={made.key} what="key" onClose={onClose}>
          Its ID is <code>{made.id}</code>. Only its hash is stored.
        </ShownOnce>
      )}
    </Modal>
  )
}

function Ask({ id, onMade, onClose }: { id: string; onMade: (made: Made) => void; onClose: () => void }) {
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<Failure | null>(null)
  const make = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    if (!(event.currentTarget instanceof HTMLFormElement) || isBusy) return
    const fields = new FormData(event.currentTarget)
    const text = (name: string): string => {
      const value = fields.get(name)
      return typeof value === 'string' ? value.trim() : ''
    }
    const template = text('template')
    setBusy(true)
    setFailure(null)
    try {
      const body = { label: text('label'), read_only: fields.get('read_only') !== null }
      onMade(
        await call<Made>('POST', tenantPath(id, 'keys'), {
          body: template === '' ? body : { ...body, template_id: template },
        }),
      )
    } catch (error) {
      setFailure(asFailure(error))
      setBusy(false)
    }
  }
  return (
    <form class="modal-body" onSubmit={(event) => void make(event)}>
      <label class="field">
        What it is for
        <input name="label" required maxLength={200} autocomplete="off" placeholder="CI of the web team" />
      </label>
      <label class="field">
        Template that its executions run under
        <input name="template" maxLength={128} autocomplete="off" spellcheck={false} placeholder="Any" />
      </label>
      <label class="setting flag">
        <input type="checkbox" name="read_only" />
        <span>Only reads</span>
      </label>
      {failure !== null && <Problem failure={failure} />}
      <div class="modal-actions">
        <button type="button" class="button" onClick={onClose}>
          Cancel
        </button>
        <button type="submit" class="button primary" disabled={isBusy}>
          {isBusy ? 'Making' : 'Make the key'}
        </button>
      </div>
    </form>
  )
}
