import type { ComponentChildren } from 'preact'
import { CopyButton } from '../../parts/copy-button.tsx'

/** A secret that nobody can see again. It leaves the page together with this component. */
export function ShownOnce(props: {
  secret: string
  /** What it is, in a word. */
  what: string
  onClose: () => void
  children: ComponentChildren
}) {
  return (
    <div class="modal-body">
      <p>Copy it now: it is never shown again.</p>
      <p class="secret">
        <code>{props.secret}</code>
        <CopyButton text={props.secret} label={`Copy the ${props.what}`} />
      </p>
      <p class="muted small">{props.children}</p>
      <div class="modal-actions">
        <button type="button" class="button primary" onClick={props.onClose}>
          I have it
        </button>
      </div>
    </div>
  )
}
