/** Keys of the whole page. None acts while a field has the focus or a dialog is open. */
import { go, pageAddress } from '../address/address.ts'
import type { PageEntry } from './page-table.ts'

/** How long after `g` the second key counts. */
const SECOND_KEY_MS = 1500

const isBusy = (target: EventTarget | null): boolean =>
  (target instanceof Element && target.closest('input, textarea, select') !== null) ||
  document.querySelector('dialog[open]') !== null

/** Moves the focus to the next or previous link of a table’s rows. */
function moveRow(step: 1 | -1): void {
  const links = [...document.querySelectorAll<HTMLElement>('[data-row-link]')]
  if (links.length === 0) return
  const at = links.indexOf(document.activeElement as HTMLElement)
  const next = at === -1 ? (step === 1 ? 0 : links.length - 1) : at + step
  links[Math.min(Math.max(next, 0), links.length - 1)]?.focus()
}

/** Starts to listen. Returns a function that ends it. */
export function listenForKeys(pages: readonly PageEntry[], onHelp: () => void): () => void {
  let wentAt = 0
  const pressed = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || isBusy(event.target)) return
    if (event.timeStamp - wentAt < SECOND_KEY_MS) {
      wentAt = 0
      const page = pages.find(({ key }) => key === event.key)
      if (page !== undefined) return go(pageAddress(page.path))
    }
    if (event.key === '/') {
      event.preventDefault()
      document.getElementById('find')?.focus()
    } else if (event.key === 'g') wentAt = event.timeStamp
    else if (event.key === '?') onHelp()
    else if (event.key === 'j') moveRow(1)
    else if (event.key === 'k') moveRow(-1)
  }
  document.addEventListener('keydown', pressed)
  return () => document.removeEventListener('keydown', pressed)
}
