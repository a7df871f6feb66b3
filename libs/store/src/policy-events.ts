/** Events of tenants and of the fleet, as triggers and functions of the database wrote them. */
import { sql, type Kysely } from 'kysely'
import { nameActor, type Author } from './author.ts'
import type { Database } from './tables.ts'

export interface FleetEvent {
  id: number
  /** Null for what belongs to no tenant, such as an admin key. */
  tenant_id: string | null
  actor: string
  event_type: string
  before: unknown
  after: unknown
  source: 'api' | 'reconciler' | 'sql'
  /** `ui` when a person did it on the dashboard. */
  via: 'ui' | null
  created_at: string
}

export interface TenantPolicyEvent extends FleetEvent {
  tenant_id: string
}

/** What a caller does that changes no row, so that no trigger writes its event. */
export type TenantAction =
  | 'execution_cancelled'
  | 'tenant_cancelled'
  | 'session_ended'
  | 'session_paused'
  | 'session_resumed'
  | 'session_forked'
  | 'session_file_written'
  | 'session_file_removed'
  | 'routine_run'
  | 'workspace_replaced'
  | 'workspace_deleted'

export interface EventQuery {
  /** Default and maximum 1,000. */
  limit?: number
  /** Only events older than the one of this ID. */
  before?: number
  /** Only events of these kinds. Default: all. */
  types?: readonly string[]
}

const MAX_LIST = 1000

/** Reads events, newest first: those of one tenant, or for null those of all tenants and of the fleet. */
export const readEvents = (
  db: Kysely<Database>,
  tenantId: string | null,
  { limit = MAX_LIST, before, types }: EventQuery = {},
): Promise<FleetEvent[]> =>
  db
    .selectFrom('tenant_policy_events')
    .selectAll()
    .$if(tenantId !== null, (all) => all.where('tenant_id', '=', tenantId))
    .$if(before !== undefined, (all) => all.where('id', '<', before ?? 0))
    // A literal for caps events, because Postgres uses the partial index on them only with a literal.
    .$if(types?.join() === 'caps', (all) => all.where(sql<boolean>`event_type = 'caps'`))
    .$if(types !== undefined, (all) => all.where('event_type', 'in', types ?? []))
    .orderBy('id', 'desc')
    .limit(Math.min(limit, MAX_LIST))
    .execute()

/** Adds an event for an action that changed no row. `details` becomes the event's field `after`. */
export async function recordAction(
  db: Kysely<Database>,
  tenantId: string,
  action: TenantAction,
  details: object,
  actor: Author,
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await nameActor(tx, { actor, source: 'api' })
    await sql`select record_tenant_action(${tenantId}, ${action}, ${JSON.stringify(details)})`.execute(tx)
  })
}
