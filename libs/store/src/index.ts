/** Postgres and the blob directory: migrations, audit, results, outputs, tenants, keys. */
export type { BucketSettings } from './blobs/s3-client.ts'
export { checkBucket } from './blobs/s3-place.ts'
export type { ApiKey, ApiKeys, NewKey, VerifiedKey } from './api-keys.ts'
export { authorName, type Author } from './author.ts'
export type { CodeInterpreters, WantedInterpreter } from './code-interpreters.ts'
export type { Timeouts } from './connect.ts'
export { createStore, type Store, type StoreOptions } from './create-store.ts'
export { auditCursor, type Page } from './cursor.ts'
export { defaultCaps, defaultPolicy } from './default-policy.ts'
export type { FeedFilter, FeedPage } from './feed.ts'
export type { StoredExecution } from './find-execution.ts'
export type { InvocationFilter } from './invocation-filter.ts'
export type { ChargedCounts } from './invocations.ts'
export {
  USAGE_GROUPS,
  type UsageGroup,
  type UsageQuery,
  type UsageReport,
  type UsageSums,
} from './usage-report.ts'
export { migrate } from './migrate.ts'
export {
  MAX_SERIES_GROUPS,
  MAX_SERIES_MS,
  SERIES_GROUPS,
  type Series,
  type SeriesFigures,
  type SeriesQuery,
} from './minute-series.ts'
export type { OutputKey } from './output-keys.ts'
export type { FleetTables } from './fleet-tables.ts'
export type { FleetEvent, TenantAction, TenantPolicyEvent } from './policy-events.ts'
export type { Retention } from './retention.ts'
export type { CallbackSecrets } from './callback-secrets.ts'
export type { StoredRoutine } from './routine-rows.ts'
export type { RoutineTrigger, RoutineTurn } from './routine-runs.ts'
export type { Routines } from './routines.ts'
export type { Collection, OutputsPage, OutputsQuery, SessionOutput } from './session-outputs.ts'
export { readSchemaState, SCHEMA_VERSION, type SchemaState } from './schema-state.ts'
export type { StoreLogger } from './store-logger.ts'
export type { Templates } from './templates.ts'
export type { PolicyPatch, Tenant, Tenants } from './tenants.ts'
export type { Workspaces, WorkspaceSummary } from './workspaces.ts'
