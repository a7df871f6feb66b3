/** The client of the HTTP API: executions, sessions, routines, workspaces, tenants and audit rows. */
export { CofferdamError, isCofferdamError, type ErrorCode, type Retry } from '@cofferdam/contract/error-table'
export type * from './wire.ts'
export type { CallOptions } from './api.ts'
export type { Audit } from './audit.ts'
export type {
  CancelStatus,
  Client,
  EnqueueOptions,
  ExecutionId,
  RunOptions,
  StoredEvent,
  StreamOptions,
  WaitOptions,
} from './client.ts'
export type { Executions, RangeOptions, RerunOptions } from './executions.ts'
export type { AdminKey, BackendSummary, Fleet, FleetEvent } from './fleet.ts'
export { createClient, type ClientOptions, type HttpClient } from './http-client.ts'
export type { List } from './pages.ts'
export type {
  LimitOptions,
  NewRoutine,
  RoutineChange,
  RoutineEvent,
  RoutineRequest,
  Routines,
} from './routines.ts'
export type {
  Session,
  SessionListing,
  SessionName,
  SessionOutput,
  SessionOutputs,
  Sessions,
} from './sessions.ts'
export type { ApiKey, PolicyEvent, Tenants, UsageNow, UsageReport } from './tenants.ts'
export type { Workspace, Workspaces, WorkspaceSummary } from './workspaces.ts'
