import { useEffect, useRef } from 'preact/hooks'
import { pageAddress } from '../address/address.ts'
import type { PageEntry } from './page-table.ts'

/**
 * The pages that there are. A strip below the bar on narrow screens, moved so that the current one is seen.
 */
export function SideNav({ pages, current }: { pages: readonly PageEntry[]; current: string | null }) {
  const list = useRef<HTMLUListElement>(null)
  useEffect(() => {
    list.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [current])
  return (
    <nav class="side-nav" aria-label="Pages">
      <ul ref={list}>
        {pages.map(({ path, title, icon }) => (
          <li key={path}>
            <a href={pageAddress(path)} aria-current={path === current ? 'page' : undefined}>
              <svg viewBox="0 0 16 16" aria-hidden="true">
                <path d={icon} />
              </svg>
              {title}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  )
}
