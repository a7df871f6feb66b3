import { session, signOut } from '../../api/session.ts'
import { CopyButton } from '../../parts/copy-button.tsx'
import { PageHead } from '../../parts/page-head.tsx'
import { Facts, Panel } from '../../parts/panel.tsx'
import { When } from '../../parts/when.tsx'
import { showsHelp } from '../../shell/help-dialog.tsx'
import { LookPanel } from './look-panel.tsx'

/** How the pages look in this browser, and who is signed in. */
export function SettingsPage() {
  return (
    <>
      <PageHead title="Settings">
        <button type="button" class="button" onClick={() => (showsHelp.value = true)}>
          Keys
        </button>
        <a class="button" href="/docs">
          The API
        </a>
      </PageHead>
      <div class="overview">
        <LookPanel />
        <KeyPanel />
      </div>
    </>
  )
}

function KeyPanel() {
  const who = session.value
  if (who === null || who === undefined) return null
  return (
    <Panel
      title="Signed in"
      aside={
        <button type="button" class="button" onClick={() => void signOut()}>
          Sign out
        </button>
      }
    >
      <Facts
        of={[
          [
            'Key',
            <>
              <code>{who.key_id}</code> <CopyButton text={who.key_id} label="Copy the key’s ID" />
            </>,
          ],
          ['Scope', who.scope === 'admin' ? 'operator, all tenants' : 'one tenant'],
          ['Tenant', who.tenant_id],
          ['Access', who.read_only ? 'read only' : 'read and change'],
          ['Sign-in ends', <When at={who.expires_at} />],
          ['Version', who.version],
        ]}
      />
    </Panel>
  )
}
