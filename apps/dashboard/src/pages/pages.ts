/** Every page that there is. */
import type { PageEntry } from '../shell/page-table.ts'
import { AuditPage } from './audit/audit-page.tsx'
import { BackendsPage } from './backends/backends-page.tsx'
import { ExecutionsPage } from './executions/executions-page.tsx'
import { OverviewPage } from './overview/overview-page.tsx'
import { PlaygroundPage } from './playground/playground-page.tsx'
import { QueuePage } from './queue/queue-page.tsx'
import { RoutinesPage } from './routines/routines-page.tsx'
import { SessionsPage } from './sessions/sessions-page.tsx'
import { SettingsPage } from './settings/settings-page.tsx'
import { TenantsPage } from './tenants/tenants-page.tsx'

export const PAGES: readonly PageEntry[] = [
  {
    title: 'Overview',
    path: '/',
    key: 'o',
    icon: 'M2.5 13V8M6.2 13V3M9.8 13V6M13.5 13v-3',
    adminOnly: true,
    View: OverviewPage,
  },
  { title: 'Executions', path: '/executions', key: 'e', icon: 'M3 3.5v9l10-4.5z', View: ExecutionsPage },
  {
    title: 'Playground',
    path: '/playground',
    key: 'p',
    icon: 'M2.5 3h11v10h-11zM5 6l2.5 2L5 10M8.5 10.5h2.5',
    changesThings: true,
    View: PlaygroundPage,
  },
  {
    title: 'Queue',
    path: '/queue',
    key: 'q',
    icon: 'M2.5 3.5h11M2.5 8h7M2.5 12.5h4',
    adminOnly: true,
    View: QueuePage,
  },
  {
    title: 'Tenants',
    path: '/tenants',
    key: 't',
    icon: 'M8 2.5a2.5 2.5 0 1 0 .01 0M3 13.5c0-3 2-4.5 5-4.5s5 1.5 5 4.5z',
    View: TenantsPage,
  },
  {
    title: 'Sessions',
    path: '/sessions',
    key: 's',
    icon: 'M2.5 3h11v10h-11zM2.5 6h11',
    View: SessionsPage,
  },
  {
    title: 'Backends',
    path: '/backends',
    key: 'b',
    icon: 'M2.5 2.5h11v4h-11zM2.5 9.5h11v4h-11zM5 4.5h0M5 11.5h0',
    View: BackendsPage,
  },
  {
    title: 'Routines',
    path: '/routines',
    key: 'r',
    icon: 'M8 2.5a5.5 5.5 0 1 0 .01 0M8 5v3.2l2 1.3',
    View: RoutinesPage,
  },
  { title: 'Audit', path: '/audit', key: 'a', icon: 'M3.5 2.5h9v11h-9zM6 6h4M6 9h4', View: AuditPage },
  {
    title: 'Settings',
    path: '/settings',
    key: ',',
    icon: 'M2.5 4.8h11M2.5 11.2h11M10.5 3v3.6M5.5 9.4V13',
    View: SettingsPage,
  },
]
