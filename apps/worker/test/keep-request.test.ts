/**
 * Which ended executions keep their request, also when two owners record the same attempt. The store is real.
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import {
  CofferdamError,
  executionRequestSchema,
  keptRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
  type Ending,
  type ExecutionId,
  type ExecutionRequestInput,
  type TenantPolicy,
} from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { createStore, defaultPolicy, type Store } from '@cofferdam/store'
import { createTestDatabase, PATIENT_TIMEOUTS } from '@cofferdam/store/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { recordAttempt, storeOutbox, type Recorded } from '../src/record-attempt.ts'
import type { WorkerDeps } from '../src/worker-deps.ts'

const owned = new AsyncDisposableStack()
const warnings: string[] = []
let sealed: Store
let clear: Store
let blobDir: string
beforeAll(async () => {
  blobDir = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-keep-'))
  owned.defer(() => rm(blobDir, { recursive: true, force: true }))
  const database = await createTestDatabase()
  owned.defer(() => database.drop())
  const options = { databaseUrl: database.url, blobDir, timeouts: PATIENT_TIMEOUTS }
  clear = owned.use(await createStore(options))
  sealed = owned.use(await createStore({ ...options, outputKeys: [{ id: 'k1', key: randomBytes(32) }] }))
})
afterAll(() => owned.disposeAsync())

interface Ends {
  executionId?: ExecutionId
  ending?: Ending
  backend?: string | null
  attempt?: number
  request?: Partial<ExecutionRequestInput>
  policy?: Partial<TenantPolicy>
  store?: Store
}

const depsOf = (store: Store): WorkerDeps =>
  ({
    store,
    canEncrypt: store.canEncrypt,
    prices: {},
    logger: { warn: (_: object, message: string) => void warnings.push(message) },
    policies: { read: async () => ({ tenant: null, template: null, templateId: undefined }) },
    admission: { refund: async () => undefined },
  }) as unknown as WorkerDeps

const takenOf = ({ executionId = newExecutionId(), attempt = 1, request }: Ends): Taken =>
  ({
    executionId,
    attempt,
    request: executionRequestSchema.parse({
      tenant_id: 'acme',
      agent_id: 'a',
      program: { type: 'script', language: 'python', source: 'print("the source")' },
      ...request,
    }),
    enqueuedAtMs: Date.now(),
    takenAtMs: Date.now(),
    nowMs: () => Date.now(),
  }) as unknown as Taken

async function end(ends: Ends, deps = depsOf(ends.store ?? sealed)): Promise<Recorded & { taken: Taken }> {
  const { ending = 'error', backend = 'fake', policy = { keep_program: 'always' } } = ends
  const taken = takenOf(ends)
  const outcome = {
    ...outcomeWithoutRun(ending, 'x', 'x'),
    backend,
    isolation: null,
    began: backend !== null,
  }
  const facts = {
    chargedAtMs: null,
    caps: null,
    retentionDays: 30,
    tenant: { ...defaultPolicy('acme'), ...policy },
  }
  return { ...(await recordAttempt(taken, outcome, facts, deps)), taken }
}

async function readKept(store: Store, id: ExecutionId): Promise<Record<string, unknown> | null> {
  const ref = (await store.findExecution('acme', id))?.requestRef ?? null
  const blob = ref === null ? null : await store.blobs.read(ref)
  if (blob === null) return null
  return keptRequestSchema.parse(JSON.parse(Buffer.from(blob.bytes).toString('utf8')))
}

/** Files of an execution in the blob store. */
async function filesOf(id: ExecutionId): Promise<string[]> {
  const entries = await readdir(blobDir, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile() && entry.parentPath.includes(id))
    .map((entry) => path.join(entry.parentPath, entry.name))
}

describe('a worker keeps the request of', () => {
  it.each<[TenantPolicy['keep_program'], Ending, string | null, boolean]>([
    ['never', 'ok', 'fake', false],
    ['never', 'error', 'fake', false],
    ['errors', 'ok', 'fake', false],
    ['errors', 'error', 'fake', true],
    ['errors', 'hard_timeout', 'fake', true],
    ['errors', 'worker_lost', 'fake', true],
    ['errors', 'cancelled', 'fake', true],
    ['always', 'ok', 'fake', true],
    ['always', 'cap_exceeded', null, false],
    ['always', 'policy_denied', null, false],
    ['always', 'cancelled', null, false],
  ])('a tenant with %s, at ending %s on %s: %s', async (keep_program, ending, backend, isKept) => {
    const { record, taken } = await end({ ending, backend, policy: { keep_program } })
    const found = await readKept(sealed, taken.executionId)
    expect(found !== null).toBe(isKept)
    expect(record.requestRef !== undefined).toBe(isKept)
    if (isKept) expect(found).toMatchObject({ request: { program: { source: 'print("the source")' } } })
  })

  it('the last attempt alone, where there are retries', async () => {
    const executionId = newExecutionId()
    const request = { retry: { max_attempts: 2, on: ['error' as const] } }
    await end({ executionId, request })
    expect(await filesOf(executionId)).toEqual([])
    await end({ executionId, request, attempt: 2 })
    expect(await filesOf(executionId)).toHaveLength(1)
    expect(await readKept(sealed, executionId)).not.toBe(null)
  })

  it('no operation on the files of a session', async () => {
    const request = { program: { type: 'files' as const, op: 'list' as const }, session: { key: 's' } }
    const { taken } = await end({ request, ending: 'ok' })
    expect(await readKept(sealed, taken.executionId)).toBe(null)
  })

  it('programs with 16 MiB of files', async () => {
    const content = 'é'.repeat(4 * 1024 * 1024)
    const files = ['a', 'b'].map((name) => ({ path: name, content }))
    const { taken } = await end({ request: { files } })
    const found = await readKept(sealed, taken.executionId)
    expect(found).toHaveProperty(['request', 'files'], files)
  })
})

describe('what is on the disk', () => {
  const secrets = { env: { TOKEN: 'value-of-token' } }

  it('cannot be read with a key', async () => {
    const { taken } = await end({
      request: secrets,
      policy: { keep_program: 'always', redact: ['a secret of acme'] },
    })
    const [file = ''] = await filesOf(taken.executionId)
    const bytes = (await readFile(file)).toString('latin1')
    expect(bytes).not.toMatch(/the source|value-of-token|TOKEN/)
    expect(await readKept(sealed, taken.executionId)).toMatchObject({ request: secrets, env_names: [] })
  })

  it('has no values of variables without one', async () => {
    const { taken } = await end({ request: secrets, store: clear })
    const [file = ''] = await filesOf(taken.executionId)
    const bytes = (await readFile(file)).toString('utf8')
    expect(bytes).toContain('the source')
    expect(bytes).not.toContain('value-of-token')
    expect(await readKept(clear, taken.executionId)).toMatchObject({ env_names: ['TOKEN'] })
  })

  it.each([{ redact: ['a secret of acme'] }, { encrypt_outputs: true }])(
    'is nothing without one, if the policy has %j',
    async (policy) => {
      warnings.length = 0
      const { taken } = await end({ policy: { keep_program: 'always', ...policy }, store: clear })
      expect(await filesOf(taken.executionId)).toEqual([])
      expect(warnings).toEqual(['a program is not kept, because there is no key to encrypt it'])
    },
  )
})

describe('an attempt that two workers end', () => {
  it('keeps the request of the one whose row was first, and deletes the other', async () => {
    const executionId = newExecutionId()
    const first = await end({ executionId })
    const second = await end({ executionId, ending: 'worker_lost' })
    expect(second.record.requestRef).toBe(first.record.requestRef)
    expect(await filesOf(executionId)).toHaveLength(1)
    expect(await readKept(sealed, executionId)).not.toBe(null)
  })

  it('keeps none when the first one kept none', async () => {
    const executionId = newExecutionId()
    await end({ executionId, policy: { keep_program: 'never' } })
    await end({ executionId })
    expect(await filesOf(executionId)).toEqual([])
  })

  it('keeps it once when Postgres was away and the outbox is stored twice', async () => {
    const executionId = newExecutionId()
    const away = { ...sealed, record: async () => Promise.reject(new CofferdamError('store_unavailable')) }
    const { record, isInOutbox } = await end({ executionId }, depsOf(away as Store))
    expect(isInOutbox).toBe(true)
    const stored = JSON.parse(JSON.stringify(record)) as typeof record
    for (let times = 0; times < 2; times += 1) await storeOutbox([stored], depsOf(sealed))
    expect(await filesOf(executionId)).toHaveLength(1)
    expect(await readKept(sealed, executionId)).not.toBe(null)
  })
})

it('ends an execution whose request cannot be stored', async () => {
  warnings.length = 0
  const blobs = { ...sealed.blobs, create: async () => Promise.reject(new Error('disk full')) }
  const { record, taken } = await end({}, depsOf({ ...sealed, blobs } as Store))
  expect(record.result.ending).toBe('error')
  expect(record.requestRef).toBe(undefined)
  expect(await sealed.findExecution('acme', taken.executionId)).toMatchObject({ requestRef: null })
  expect(warnings).toEqual(['a program could not be kept'])
})
