/** What the navigation and the keys know about a page, and which page a path names. */
import type { ComponentType } from 'preact'

export interface PageEntry {
  title: string
  /** The first part of its path. The overview has none. */
  path: string
  /** The key that opens this page when it is pressed after `g`. */
  key: string
  /** The path of a 16 by 16 icon, drawn as a line. */
  icon: string
  /** Only for keys of operators: to other keys, the API refuses the data of the page. */
  adminOnly?: boolean
  /** Of no use to a key that may only read, so the navigation leaves it out. */
  changesThings?: boolean
  /** `rest` is what follows the first part of the path, decoded. Empty for the page itself. */
  View: ComponentType<{ rest: readonly string[] }>
}

/** Which page a path names, and what follows. Null when there is none. */
export function pageOf(
  pages: readonly PageEntry[],
  pathname: string,
): { page: PageEntry; rest: string[] } | null {
  const [, first = '', ...rest] = pathname.split('/')
  const page = pages.find(({ path }) => path === `/${first}`)
  if (page === undefined) return null
  try {
    return { page, rest: rest.filter((part) => part !== '').map(decodeURIComponent) }
  } catch {
    // A broken %-sequence names nothing.
    return null
  }
}
