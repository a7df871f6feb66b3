/**
 * The address of the page is its state: a view is shared by its address, and back and forward restore it.
 * Links are ordinary anchors. `followLinks` turns a click on one into a change of `address` without a load.
 */
import { signal } from '@preact/signals'

/** Where the page is. Components that read it are drawn again when it changes. */
export const address = signal(new URL(window.location.href))

/** Values of a query by name. Null and undefined leave a name out. */
export type Query = Readonly<Record<string, string | null | undefined>>

/** Goes to another address. `replace` leaves no step in the history, for changes that nobody goes back to. */
export function go(to: string, how: 'push' | 'replace' = 'push'): void {
  const next = new URL(to, window.location.href)
  if (next.href === address.value.href) return
  if (how === 'push') window.history.pushState(null, '', next)
  else window.history.replaceState(null, '', next)
  const isOtherPage = next.pathname !== address.value.pathname
  address.value = next
  if (isOtherPage) window.scrollTo(0, 0)
}

/** One value of the address’s query. Null without it. */
export const queryValue = (name: string): string | null => address.value.searchParams.get(name)

/** The address of the same page with other values in its query. */
export function withQuery(changes: Query): string {
  const next = new URL(address.value)
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === '') next.searchParams.delete(name)
    else next.searchParams.set(name, value)
  }
  return next.pathname + next.search
}

/** The address of a page. The chosen tenant stays. */
export function pageAddress(path: string, query: Query = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries({ tenant: queryValue('tenant'), ...query }))
    if (value !== null && value !== undefined && value !== '') search.set(name, value)
  const text = search.toString()
  return text === '' ? path : `${path}?${text}`
}

/** Paths that the server answers itself. The browser loads a link to such a path. */
const OF_SERVER = /^\/(v1|ui|mcp|api|docs|assets|metrics|healthz|readyz|openapi\.json|\.well-known)(\/|$)/

/** Starts to follow links and the browser’s back and forward. Returns a function that ends it. */
export function followLinks(): () => void {
  const follow = (event: MouseEvent): void => {
    const isPlain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)
    if (event.defaultPrevented || event.button !== 0 || !isPlain) return
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (link === null || link.target !== '' || link.hasAttribute('download')) return
    const to = new URL(link.href)
    if (to.origin !== window.location.origin || OF_SERVER.test(to.pathname) || to.hash !== '') return
    event.preventDefault()
    go(to.href)
  }
  const moved = (): void => {
    address.value = new URL(window.location.href)
  }
  document.addEventListener('click', follow)
  window.addEventListener('popstate', moved)
  return () => {
    document.removeEventListener('click', follow)
    window.removeEventListener('popstate', moved)
  }
}
