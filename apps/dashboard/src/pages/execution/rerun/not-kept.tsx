import type { Failure } from '../../../api/failure.ts'
import { isAdmin } from '../../../api/session.ts'
import { CopyButton } from '../../../parts/copy-button.tsx'

/** Whether the program was not kept. Trying again cannot change that. */
export const isNotKept = ({ code }: Failure): boolean => code === 'not_found'

/** Why an execution cannot be run again, and the setting that keeps the program of the next one. */
export function NotKept(props: { failure: Failure; tenantId: string; onClose: () => void }) {
  const { failure, tenantId, onClose } = props
  const setting = missingSetting(failure)
  return (
    <div class="modal-body">
      <div class="not-kept" role="alert">
        <strong>It cannot be run again from here.</strong>
        <p>{failure.message}</p>
      </div>
      {setting !== null && <Setting value={setting} tenantId={tenantId} />}
      <div class="modal-actions">
        <button type="button" class="button" onClick={onClose}>
          Close
        </button>
      </div>
    </div>
  )
}

/**
 * The first value of keep_program that would have kept the program. Null if the policy's present value would
 * keep it.
 */
function missingSetting({ details }: Failure): string | null {
  const keptBy: unknown = details['kept_by']
  if (!Array.isArray(keptBy) || keptBy.includes(details['keep_program'])) return null
  const first: unknown = keptBy[0]
  return typeof first === 'string' ? first : null
}

function Setting({ value, tenantId }: { value: string; tenantId: string }) {
  const command = `cofferdam tenant set ${tenantId} --keep-program ${value}`
  if (!isAdmin.value)
    return (
      <p>
        An operator can set <code>keep_program</code> of your policy to <code>{value}</code>.
      </p>
    )
  return (
    <div class="keep-setting">
      <p>This keeps the program of the next one:</p>
      <div class="command-line">
        <code>{command}</code>
        <CopyButton text={command} label="Copy the command" />
      </div>
    </div>
  )
}
