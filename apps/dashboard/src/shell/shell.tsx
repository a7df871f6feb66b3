import { useEffect } from 'preact/hooks'
import { address, pageAddress } from '../address/address.ts'
import { isAdmin, mayChange } from '../api/session.ts'
import { Empty } from '../parts/problem.tsx'
import { PageHead } from '../parts/page-head.tsx'
import { HelpDialog, showsHelp } from './help-dialog.tsx'
import { pageOf, type PageEntry } from './page-table.ts'
import { SideNav } from './side-nav.tsx'
import { listenForKeys } from './shortcuts.ts'
import { TopBar } from './top-bar.tsx'

/** Everything around a page: bar, navigation, keys, and what an unknown address shows. */
export function Shell({ pages }: { pages: readonly PageEntry[] }) {
  const shown = pages.filter((page) => page.adminOnly !== true || isAdmin.value)
  const listed = shown.filter((page) => page.changesThings !== true || mayChange.value)
  useEffect(() => listenForKeys(listed, () => (showsHelp.value = true)), [listed.length])
  // The overview is for operators; keys of tenants begin with their executions.
  const pathname = address.value.pathname === '/' && !isAdmin.value ? '/executions' : address.value.pathname
  const found = pageOf(shown, pathname)
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <TopBar />
      <div class="frame">
        <SideNav pages={listed} current={found?.page.path ?? null} />
        <main id="main" tabIndex={-1}>
          {found === null ? <NotFound /> : <found.page.View key={found.page.path} rest={found.rest} />}
        </main>
      </div>
      <HelpDialog pages={listed} />
    </>
  )
}

function skip(event: Event): void {
  event.preventDefault()
  document.getElementById('main')?.focus()
}

function NotFound() {
  return (
    <>
      <PageHead title="Not found" />
      <Empty title="There is no page at this address.">
        <a href={pageAddress('/executions')}>Go to the executions</a>
      </Empty>
    </>
  )
}
