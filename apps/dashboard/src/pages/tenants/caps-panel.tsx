import type { TenantCaps, UsageNow } from '@cofferdam/client'
import { Panel } from '../../parts/panel.tsx'
import { notesOf } from './cap-notes.ts'
import { mapOf } from './settings/field-parts.ts'
import type { Field } from './settings/fields.ts'
import { SettingsForm } from './settings/settings-form.tsx'
import { tenantPath, type Load } from './tenant.ts'

const FLEET = 'default of the fleet'
const NONE = 'no cap'
const MOST = 1_000_000_000

/** Every cap, with the bounds of libs/contract/src/tenant-caps.ts. */
const FIELDS: readonly Field[] = [
  {
    name: 'tenant_daily',
    words: 'Attempts a day',
    kind: 'number',
    min: 0,
    max: MOST,
    empty: FLEET,
    note: 'UTC day. 0 stops the tenant.',
  },
  {
    name: 'agent_hourly',
    words: 'Attempts an hour and agent',
    kind: 'number',
    min: 0,
    max: MOST,
    empty: FLEET,
  },
  { name: 'concurrency', words: 'Running at once', kind: 'number', min: 1, max: 100_000, empty: FLEET },
  { name: 'max_queued', words: 'Waiting at once', kind: 'number', min: 0, max: 10_000_000, empty: FLEET },
  {
    name: 'weight',
    words: 'Weight',
    kind: 'number',
    min: 0.01,
    max: 100,
    fraction: true,
    note: 'Share of the fleet while others want work, too.',
  },
  {
    name: 'rate_per_second',
    words: 'Starts a second',
    kind: 'number',
    min: 0.001,
    max: 100_000,
    fraction: true,
    empty: 'no limit',
  },
  { name: 'burst', words: 'Starts at once', kind: 'number', min: 1, max: 100_000 },
  {
    name: 'tenant_daily_cpu_seconds',
    words: 'CPU seconds a day',
    kind: 'number',
    min: 0,
    max: MOST,
    empty: NONE,
  },
  {
    name: 'tenant_daily_cost',
    words: 'Cost a day, millionths',
    kind: 'number',
    min: 0,
    max: MOST * 1_000_000,
    empty: NONE,
    note: '1,000,000 is one unit of cost.',
  },
  {
    name: 'agents',
    words: 'Attempts an hour of single agents',
    kind: 'lines',
    line: /^\S+\s+\d{1,9}$/,
    isMap: true,
    note: 'Each agent once, on a line with its cap: analyst 200. 0 stops the agent.',
    ...mapOf('agents', Number),
  },
]

/** The caps. Changes are live at the next admission. */
export function CapsPanel(props: {
  id: string
  caps: TenantCaps
  usage: UsageNow | null
  load: Load | null
  onAsk: () => void
  onSaved: () => void
}) {
  return (
    <Panel title="Caps">
      <SettingsForm
        title="Change the caps"
        fields={FIELDS}
        now={props.caps}
        path={tenantPath(props.id, 'caps')}
        notes={(changes) => notesOf(changes, props.usage, props.load)}
        onAsk={props.onAsk}
        onSaved={props.onSaved}
      />
    </Panel>
  )
}
