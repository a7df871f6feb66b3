import { useState } from 'preact/hooks'
import { asFailure, type Failure } from '../../api/failure.ts'
import { otherLink, takeOtherLink } from '../../api/session.ts'
import { Modal } from '../../parts/modal.tsx'
import { Problem } from '../../parts/problem.tsx'

/**
 * Asks before a link replaces the key that is signed in: any page can open a link, also one with somebody
 * else's key.
 */
export function OtherLinkDialog({ code, message }: { code: string; message: string }) {
  const [failure, setFailure] = useState<Failure | null>(null)
  const stay = (): void => {
    otherLink.value = null
  }
  const use = (): Promise<void> => takeOtherLink(code).catch((error) => setFailure(asFailure(error)))
  return (
    <Modal title="Sign in with the link?" onClose={stay}>
      <div class="modal-body">
        <p>{message} Use the link only if you asked for it yourself.</p>
        {failure !== null && <Problem failure={failure} />}
        <div class="modal-actions">
          <button type="button" class="button" onClick={stay}>
            Stay signed in
          </button>
          <button type="button" class="button primary" onClick={() => void use()}>
            Use the link
          </button>
        </div>
      </div>
    </Modal>
  )
}
