/** The store: one object over a connection pool per database role. */
import type { AttemptRecord, AuditRow, BlobStore, ExecutionId, ExecutionState } from '@cofferdam/contract'
import { type Kysely, type Transaction, sql } from 'kysely'
import { createApiKeys, type ApiKeys } from './api-keys.ts'
import { createRecordBatcher, type WrittenBatch } from './batch-records.ts'
import { checkDatabase } from './check-store.ts'
import { asTenant, connect, DEFAULT_TIMEOUTS, type Timeouts } from './connect.ts'
import { createBlobStore } from './blobs/blob-store.ts'
import { createLocalPlace } from './blobs/local-place.ts'
import type { BucketSettings } from './blobs/s3-client.ts'
import { createS3Place } from './blobs/s3-place.ts'
import type { Page } from './cursor.ts'
import { finishedBetween } from './finished-range.ts'
import { fleetTables, type FleetTables } from './fleet-tables.ts'
import { feedPage, type FeedFilter, type FeedPage } from './feed.ts'
import { findAttempt, findExecution, type StoredExecution } from './find-execution.ts'
import { attemptKey, insertAttempts, RECORD_STATEMENT } from './insert-attempts.ts'
import type { InvocationFilter } from './invocation-filter.ts'
import { countCharged, listInvocations, type AttemptName, type ChargedCounts } from './invocations.ts'
import { minuteSeries, type Series, type SeriesQuery } from './minute-series.ts'
import { listResults } from './results.ts'
import { createCodeInterpreters, type CodeInterpreters } from './code-interpreters.ts'
import { createCallbackSecrets, type CallbackSecrets } from './callback-secrets.ts'
import { createOutputKeys, type OutputKey } from './output-keys.ts'
import { createSealedStreams, type SealedStreams } from './sealed-streams.ts'
import { createRetention, type Retention } from './retention.ts'
import { createRoutines, type Routines } from './routines.ts'
import {
  findOutput,
  listOutputs,
  type OutputsPage,
  type OutputsQuery,
  type SessionOutput,
} from './session-outputs.ts'
import { mayBeStored, translating } from './store-errors.ts'
import { silentLogger, type StoreLogger } from './store-logger.ts'
import type { StorableAttempt } from './attempt-columns.ts'
import type { Database } from './tables.ts'
import { createTemplates, type Templates } from './templates.ts'
import { createTenants, type Tenants } from './tenants.ts'
import { reportUsage, type UsageQuery, type UsageReport } from './usage-report.ts'
import { createWorkspaces, type Workspaces } from './workspaces.ts'
import { dropMovedText, moveLargeText } from './visible-text.ts'

/** Connections for the writer with two batches in flight, and for reads of admins and sweepers. */
const FLEET_POOL = 6
/** Connections for requests of tenants, and for policy and keys. */
const APP_POOL = 6

/** Time to check all audit rows: enough for 300 million at a second per million. */
const AUDIT_MS = 300_000

export interface StoreOptions {
  databaseUrl: string
  /** Directory of the blob store, created if absent. Not used with `bucket`. */
  blobDir: string
  /** Puts blobs into an object store. */
  bucket?: BucketSettings | undefined
  logger?: StoreLogger
  timeouts?: Partial<Timeouts>
  /** The first key encrypts, all decrypt. Without a key, data that must be encrypted is not stored. */
  outputKeys?: readonly OutputKey[]
  /** Called after each batch of attempts that was sent to Postgres. */
  onBatch?: (batch: WrittenBatch) => void
}

/** Every method throws `store_unavailable` within about 2.5 s when Postgres does not answer. */
export interface Store extends AsyncDisposable {
  /** Writes audit row and result once per attempt, in batches. `inserted` is false if they existed. */
  record(record: AttemptRecord): Promise<{ inserted: boolean }>
  /** Null when it was not recorded, or has expired. */
  findAttempt(executionId: ExecutionId, attempt: number): Promise<AttemptRecord | null>
  /**
   * `tenantId` null means any tenant, for admins. Returns null if the execution has not ended, belongs to
   * another tenant or has expired.
   */
  findExecution(tenantId: string | null, executionId: ExecutionId): Promise<StoredExecution | null>
  listExecutions(filter: InvocationFilter): Promise<Page<ExecutionState>>
  listAudit(filter: InvocationFilter): Promise<Page<AuditRow>>
  /** The newest version of each file that `collect` operations of a run stored, by path. */
  listOutputs(query: OutputsQuery & { limit: number; after?: string }): Promise<OutputsPage>
  /** The output at `path`. Null if there is none or it has expired. Its blob may already be deleted. */
  findOutput(query: OutputsQuery & { path: string }): Promise<SessionOutput | null>
  /** Audit rows in the order of recording. A reader that follows the cursor gets every row once. */
  feed(filter: FeedFilter): Promise<FeedPage>
  chargedCounts(tenantId: string, atMs: number, unsettled?: readonly AttemptName[]): Promise<ChargedCounts>
  /** Usage and cost of a tenant in a range. Throws `invalid_request` for a range that is too long. */
  usage(query: UsageQuery): Promise<UsageReport>
  /** Figures by minute of attempts that ended in a range of 24 h at most. Throws `invalid_request`. */
  series(query: SeriesQuery): Promise<Series>
  /**
   * Time that workers spent in a range on attempts that have ended since: milliseconds by tenant, summed over
   * attempts.
   */
  recentWork(fromMs: number, toMs: number): Promise<Map<string, number>>
  readonly tenants: Tenants
  readonly templates: Templates
  readonly keys: ApiKeys
  readonly routines: Routines
  readonly callbackSecrets: CallbackSecrets
  readonly codeInterpreters: CodeInterpreters
  readonly workspaces: Workspaces
  /**
   * Gives another package access to its own tables. It sees all tenants, so it is for admins and workers
   * only. `what` names the data in messages.
   */
  fleetTables<Schema>(what: string): FleetTables<Schema>
  readonly blobs: BlobStore
  /** 32 bytes, the same for the whole fleet. The API encrypts the cursors of its lists with them. */
  cursorKey(): Promise<Uint8Array>
  readonly retention: Retention
  readonly canEncrypt: boolean
  /** Encrypts data that is kept outside of the store, such as paused sessions. Null without a key. */
  readonly sealedStreams: SealedStreams | null
  /** Resolves when results can be stored. Throws `store_unavailable` or `config_invalid` with what to do. */
  check(): Promise<void>
}

/**
 * Opens the store, which connects later, so that a process can start while Postgres is down. Run `migrate`
 * once before. Throws `config_invalid` for invalid keys.
 */
export async function createStore(options: StoreOptions): Promise<Store> {
  const logger = options.logger ?? silentLogger
  const timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts }
  const common = { databaseUrl: options.databaseUrl, timeouts, logger }
  const app = connect({ ...common, role: 'cofferdam_app', max: APP_POOL })
  const fleet = connect({
    ...common,
    role: 'cofferdam_all_tenants',
    max: FLEET_POOL,
    prepared: new Map([[RECORD_STATEMENT, 'record']]),
  })
  // Connects at the first round of retention, so API processes never do.
  const sweeper = connect({ ...common, role: 'cofferdam_sweeper', max: 1 })
  const auditor = connect({
    ...common,
    role: 'cofferdam_sweeper',
    max: 1,
    timeouts: { ...timeouts, statementMs: AUDIT_MS },
  })
  const keys = createOutputKeys(options.outputKeys ?? [])
  const { bucket, blobDir } = options
  const place = await (bucket === undefined ? createLocalPlace(blobDir) : createS3Place(bucket))
  const blobs = createBlobStore(place, keys)
  const knownDays = new Set<string>()
  const batcher = createRecordBatcher<StorableAttempt>(
    (batch) => insertAttempts(fleet.db, batch, knownDays),
    options.onBatch,
  )

  /** Reads as one tenant (row-level security), or as the role that sees all tenants. */
  const reading = <T>(
    what: string,
    tenantId: string | null,
    work: (db: Kysely<Database> | Transaction<Database>) => Promise<T>,
  ): Promise<T> =>
    translating(what, () => (tenantId === null ? work(fleet.db) : asTenant(app.db, tenantId, work)))

  return {
    async record(record) {
      const attempt = await moveLargeText(record, blobs, keys)
      const key = attemptKey(attempt.executionId, record.audit.attempt)
      const inserted = await batcher.add(key, attempt).catch(async (error: unknown) => {
        // If the row may exist, keep the moved text, because the row refers to it. If there is no row, the
        // text expires with the execution's blobs.
        if (!mayBeStored(error)) await dropMovedText(attempt, blobs)
        throw error
      })
      if (!inserted) await dropMovedText(attempt, blobs)
      return { inserted }
    },
    findAttempt: (executionId, attempt) =>
      reading('an attempt', null, (db) => findAttempt(db, executionId, attempt, keys, blobs)),
    findExecution: (tenantId, executionId) =>
      reading('an execution', tenantId, (db) => findExecution(db, executionId, keys, blobs)),
    listExecutions: (filter) =>
      reading('the executions', filter.tenantId, (db) => listResults(db, filter, keys)),
    listAudit: (filter) => reading('the audit rows', filter.tenantId, (db) => listInvocations(db, filter)),
    listOutputs: (query) =>
      reading('the outputs of a session', query.tenantId, (db) => listOutputs(db, query)),
    findOutput: (query) => reading('the outputs of a session', query.tenantId, (db) => findOutput(db, query)),
    feed: (filter) => reading('the audit feed', filter.tenantId, (db) => feedPage(db, filter)),
    chargedCounts: (tenantId, atMs, unsettled) =>
      reading('the charged attempts', tenantId, (db) => countCharged(db, tenantId, atMs, unsettled)),
    usage: (query) => reading('the usage', query.tenantId, (db) => reportUsage(db, query)),
    series: (query) => reading('the figures by minute', query.tenantId, (db) => minuteSeries(db, query)),
    recentWork: (fromMs, toMs) =>
      reading('the work of tenants', null, () => recentWork(fleet.db, fromMs, toMs)),
    tenants: createTenants(app.db),
    templates: createTemplates(app.db),
    keys: createApiKeys(app.db),
    routines: createRoutines(app.db, fleet.db),
    callbackSecrets: createCallbackSecrets(app.db, keys),
    codeInterpreters: createCodeInterpreters(fleet.db),
    blobs,
    workspaces: createWorkspaces(app.db, keys),
    fleetTables: (what) => fleetTables(fleet.db, what),
    retention: createRetention(fleet.db, sweeper.db, auditor.db, blobs),
    cursorKey: () =>
      translating('the cursor key', async () => {
        const { key } = await app.db.selectFrom('cursor_key').select('key').executeTakeFirstOrThrow()
        return key
      }),
    canEncrypt: keys.current !== null,
    sealedStreams: createSealedStreams(keys),
    async check() {
      await checkDatabase(app.db, 'cofferdam_app')
      await checkDatabase(fleet.db, 'cofferdam_all_tenants')
      await place.check()
    },
    async [Symbol.asyncDispose]() {
      await batcher.idle()
      place[Symbol.dispose]()
      await Promise.all([app.close(), fleet.close(), sweeper.close(), auditor.close()])
    },
  }
}

/**
 * Milliseconds by tenant that workers spent within [fromMs, toMs) on attempts, summed over attempts. An
 * attempt counts from the take to the ending. Attempts that still run are missing, because they are not in
 * the store.
 */
async function recentWork(db: Kysely<Database>, fromMs: number, toMs: number): Promise<Map<string, number>> {
  const [from, to] = [new Date(fromMs).toISOString(), new Date(toMs).toISOString()]
  const { rows } = await sql<{ tenant_id: string; busy_ms: number }>`
    select tenant_id, sum(extract(epoch from
        least(finished_at, ${to}::timestamptz) - greatest(started_at, ${from}::timestamptz)) * 1000)::float8
      as busy_ms
    from sandbox_invocations
    -- What ends a little later was busy before. It is in the store already if the clocks differ.
    where ${finishedBetween(fromMs, toMs + 60_000)} and started_at < ${to}
    group by tenant_id`.execute(db)
  return new Map(rows.map((row) => [row.tenant_id, row.busy_ms]))
}
