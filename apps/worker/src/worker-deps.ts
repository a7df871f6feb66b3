/** What carrying an execution needs; made once in compose-deps.ts. */
import type { Admission } from '@cofferdam/admission'
import type {
  AttemptRecord,
  Backend,
  ExecutionRequest,
  Prices,
  SessionRegistry,
  WorkerId,
} from '@cofferdam/contract'
import type { Executor } from '@cofferdam/executor'
import type { Offer } from '@cofferdam/queue'
import type { Store } from '@cofferdam/store'
import type { Logger } from '@cofferdam/telemetry'
import type { CheckPatience } from './check-patience.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { LeaseKeeper } from './lease-keeper.ts'
import type { PolicyCache } from './policy-cache.ts'
import type { Workspaces } from './workspaces.ts'

/** May refuse a backend at the moment an execution would use it. */
export interface BackendSwitch {
  /** Why the execution may not use the backend, as public text; null when it may. Never rejects. */
  refuses(request: Pick<ExecutionRequest, 'tenant_id' | 'idempotency_key'>): Promise<string | null>
}

export interface WorkerDeps {
  workerId: WorkerId
  admission: Admission
  executor: Executor
  backends: ReadonlyMap<string, Backend>
  /** What these can run now (route.ts). */
  offers(this: void): readonly Offer[]
  /** Sessions that any worker can attach to. */
  sessions: Pick<SessionRegistry, 'claim' | 'find'>
  store: Pick<Store, 'record' | 'findAttempt'>
  policies: PolicyCache
  patience: CheckPatience
  /** When an execution comes back that waits for a vendor's room (return-times.ts). */
  returnAtMs(this: void, nowMs: number): number
  leases: LeaseKeeper
  checkpoints: Checkpoints
  workspaces: Workspaces
  metrics: { ended(record: AttemptRecord): void }
  logger: Logger
  /** Retention of audit rows of tenants whose policy cannot be read (DESIGN §7: 30 days). */
  defaultRetentionDays: number
  /** Cuts what a request asks to what this worker gives; left out: everything is given. */
  within?(this: void, request: ExecutionRequest): ExecutionRequest
  /** What attempts cost, by backend. */
  prices: Prices
  /** What may refuse a backend, by its name. */
  switches: ReadonlyMap<string, BackendSwitch>
  /** Whether a key for encrypted outputs is configured. */
  canEncrypt: boolean
}
