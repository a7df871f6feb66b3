import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

/** A dialog over the page. The browser holds the focus in it, and Escape closes it. */
export function Modal(props: { title: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const isMounted = useRef(true)
  useEffect(() => {
    const shown = dialog.current
    shown?.showModal()
    return () => {
      isMounted.current = false
      shown?.close()
    }
  }, [])
  // The browser fires the close event late. Another dialog may then be open at the same place in the page,
  // and must stay open.
  const closed = (): void => {
    if (isMounted.current) props.onClose()
  }
  return (
    <dialog ref={dialog} class="modal" aria-label={props.title} onClose={closed}>
      <header class="modal-head">
        <h2>{props.title}</h2>
        <button type="button" class="icon-button" aria-label="Close" onClick={props.onClose}>
          ✕
        </button>
      </header>
      {props.children}
    </dialog>
  )
}
