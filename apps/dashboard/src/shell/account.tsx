import { pageAddress } from '../address/address.ts'
import { session, signOut } from '../api/session.ts'
import { When } from '../parts/when.tsx'

/** Who is signed in, and a button to sign out. */
export function Account() {
  const who = session.value
  if (who === null || who === undefined) return null
  const scope = who.scope === 'admin' ? 'Operator' : who.tenant_id
  return (
    <details class="account">
      <summary aria-label="Account">
        {scope}
        {who.read_only && <span class="badge">read only</span>}
      </summary>
      <div class="account-menu">
        <p>
          Key <code>{who.key_id}</code>
        </p>
        <p class="muted small">
          Signed out <When at={who.expires_at} />
        </p>
        <p>
          <a href={pageAddress('/settings')}>Settings</a>
        </p>
        <button type="button" class="button" onClick={() => void signOut()}>
          Sign out
        </button>
      </div>
    </details>
  )
}
