import { pageAddress } from '../address/address.ts'
import { connection } from '../api/call.ts'
import { isAdmin } from '../api/session.ts'
import { Account } from './account.tsx'
import { showsHelp } from './help-dialog.tsx'
import { SearchBox } from './search-box.tsx'
import { TenantSwitch } from './tenant-switch.tsx'

/** The bar at the top: the tenant, the search box, whether the API answers, and who is signed in. */
export function TopBar() {
  return (
    <header class="top-bar">
      <a class="brand" href={pageAddress('/')} aria-label="Cofferdam">
        <svg viewBox="0 0 16 16" aria-hidden="true">
          <path d="M2 3v10M6 3v10M10 3v10M14 3v10M2 8h12" />
        </svg>
        <span class="brand-name">Cofferdam</span>
      </a>
      {isAdmin.value && <TenantSwitch />}
      <SearchBox />
      <LiveDot />
      <button
        type="button"
        class="icon-button"
        aria-label="Keys"
        title="Keys (?)"
        onClick={() => (showsHelp.value = true)}
      >
        ?
      </button>
      <Account />
    </header>
  )
}

const WORDS = { unknown: 'Connecting', live: 'Live', lost: 'No connection' } as const
const TONES = { unknown: 'wait', live: 'ok', lost: 'bad' } as const

/** Whether the last call got an answer. */
function LiveDot() {
  const state = connection.value
  return (
    <span class={`live-dot standing tone-${TONES[state]}`} role="status">
      <span class="dot" aria-hidden="true" />
      <span class="live-word">{WORDS[state]}</span>
    </span>
  )
}
