/**
 * Executions share the session of their run without asking for it (policy `run_sessions`), as when an agent
 * platform calls them: through API, queue and workers with real sandboxes.
 */
import type { RunningApi } from '@cofferdam/api'
import { createClient } from '@cofferdam/client'
import type { ExecutionRequestInput, ExecutionResult } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import type { RunningWorker } from '@cofferdam/worker'
import { afterAll, beforeAll, expect } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'

const onProcess = needs('process-namespaces')
const BACKENDS = { COFFERDAM_BACKENDS: 'process,none', COFFERDAM_SLOTS: '2' }
let fleet: Fleet
let worker: RunningWorker
let api: RunningApi
let admin = ''

beforeAll(async () => {
  fleet = await startFleet()
  await fleet.createTenant('acme', {
    policy: { min_isolation: 'none' },
    caps: { tenant_daily: 1000, agent_hourly: 1000 },
  })
  admin = (await fleet.store.keys.create('admin', 'test')).key
  worker = await fleet.runWorker(BACKENDS)
  api = await fleet.runApi()
  await setPolicy({ run_sessions: true })
})
afterAll(() => fleet?.[Symbol.asyncDispose]())

async function call(
  method: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; json: unknown }> {
  const response = await fetch(`${api.url}/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${admin}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, json: text === '' ? null : JSON.parse(text) }
}

const setPolicy = async (patch: object): Promise<void> =>
  expect(await call('PATCH', '/tenants/acme/policy', patch)).toMatchObject({ status: 200, json: patch })

type Asked = Partial<ExecutionRequestInput>
const request = (runId: string, program: ExecutionRequestInput['program'], more: Asked) => ({
  tenant_id: 'acme',
  agent_id: 'a',
  run_id: runId,
  program,
  backend: 'process',
  ...more,
})

async function run(runId: string, program: ExecutionRequestInput['program'], more: Asked = {}) {
  const answer = await call('POST', '/executions?wait=30s', request(runId, program, more))
  expect(answer.status).toBe(200)
  return answer.json as ExecutionResult
}
const python = (source: string) => ({ type: 'script', language: 'python', source }) as const
/** Appends a word to a file and prints all words that are in this sandbox. */
const note = (word: string) => python(`open("calls", "a").write("${word} ")\nprint(open("calls").read())`)
const said = ({ stdout }: ExecutionResult) => stdout.trim()

onProcess.it(
  'all calls of an agent in one run find the files of earlier calls, in any language',
  async () => {
    const first = await run('turn-1', note('one'))
    expect(first).toMatchObject({ ok: true, session: { fresh: true } })
    const id = first.session?.id
    const later = [
      await run('turn-1', note('two')),
      await run('turn-1', { type: 'command', argv: ['cat', 'calls'] }),
      await run('turn-1', {
        type: 'script',
        language: 'javascript',
        source: 'console.log(require("node:fs").readFileSync("calls", "utf8"))',
      }),
      await run('turn-1', { type: 'script', language: 'bash', source: 'cat calls' }, { lane: 'routine' }),
      // This client writes to Redis directly.
      await fleet.client.run(request('turn-1', note('three'), {}), { timeoutMs: 30_000 }),
    ]
    expect(later.map(said)).toEqual(['one two', 'one two', 'one two', 'one two', 'one two three'])
    for (const result of later) expect(result.session).toMatchObject({ id, fresh: false })
    // Each call has its own charge and audit row.
    const rows = (await fleet.store.listAudit({ tenantId: 'acme', limit: 100 })).rows
    expect(rows.map((row) => [row.run_id, row.session_id, row.quota_charged])).toEqual(
      later.concat(first).map(() => ['turn-1', id, true]),
    )
  },
)

onProcess.it('other agents, other runs and explicitly named sessions find none of these files', async () => {
  await run('turn-2', note('secret'))
  const others: [string, Asked][] = [
    ['turn-2', { agent_id: 'b' }],
    ['turn-3', {}],
    ['turn-2', { reuse: 'job' }],
    ['turn-2', { reuse: 'tenant' }],
    ['turn-2', { session: { key: 'turn-2' } }],
    ['turn-2', { session: { key: 'a' } }],
  ]
  for (const [runId, more] of others) expect(said(await run(runId, note('other'), more))).toBe('other')
  const stolen = await call(
    'POST',
    '/executions',
    request('turn-3', note('other'), { session: { key: 'run:a:turn-2' } }),
  )
  expect(stolen.status).toBe(400)
  expect(said(await run('turn-2', note('end')))).toBe('secret end')
})

onProcess.it(
  'a call that cannot use the session runs in its own sandbox, and the session continues',
  async () => {
    const { session } = await run('turn-4', note('one'))
    const large = await run('turn-4', note('large'), { limits: { memory_mib: 300 } })
    expect(large).toMatchObject({ ok: true, stdout: 'large \n' })
    expect(large.session ?? null).toBeNull()
    const notices: string[] = []
    for await (const { event } of fleet.client.stream(large.execution_id))
      if (event.type === 'notice') notices.push(event.message)
    expect(notices).toEqual([expect.stringMatching(/^Runs in a sandbox of its own, .*memory_mib 256/)])

    const bare = await run('turn-4', python('print(1)'), { backend: 'none' })
    expect(bare).toMatchObject({ ok: true, backend: 'none' })
    expect(bare.session ?? null).toBeNull()

    const next = await run('turn-4', note('two'))
    expect(said(next)).toBe('one two')
    expect(next.session).toMatchObject({ id: session?.id, fresh: false })
  },
)

onProcess.it('a refusal by a cap between two calls does not change their session', async () => {
  const { session } = await run('turn-5', note('one'))
  await call('PATCH', '/tenants/acme/caps', { agent_hourly: 0 })
  const refused = await run('turn-5', note('refused'))
  expect(refused).toMatchObject({ ok: false, ending: 'cap_exceeded' })
  await call('PATCH', '/tenants/acme/caps', { agent_hourly: 1000 })
  const next = await run('turn-5', note('two'))
  expect(said(next)).toBe('one two')
  expect(next.session?.id).toBe(session?.id)
})

onProcess.it('the session of a run can be listed, read and ended by its key', async () => {
  const first = await run('turn-6', note('one'))
  const path = '/backends/process/sessions/run:a:turn-6'
  await expect
    .poll(async () => (await call('GET', `${path}?tenant_id=acme`)).json, { timeout: 20_000 })
    .toMatchObject({ key: 'run:a:turn-6', session_id: first.session?.id, state: 'idle', scope: 'files' })
  expect((await call('GET', `${path}/files?tenant_id=acme`)).json).toMatchObject({
    files: expect.arrayContaining([{ path: 'calls', size: 4 }]),
  })
  expect((await call('DELETE', `${path}?tenant_id=acme`)).status).toBe(204)
  const next = await run('turn-6', note('two'))
  expect(said(next)).toBe('two')
  expect(next.session).toMatchObject({ fresh: true })
})

/** Pseudo-random numbers that are the same each time. */
function* numbers(seed: number): Generator<number, never> {
  let state = seed
  for (;;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    yield state >>> 8
  }
}

/** Programs that append a word to the calls in their sandbox and print all of them. */
const ADDS: readonly ((word: string) => ExecutionRequestInput['program'])[] = [
  note,
  (word) => ({ type: 'script', language: 'bash', source: `printf '${word} ' >> calls; cat calls` }),
  (word) => ({ type: 'command', shell: `printf '${word} ' >> calls; cat calls` }),
  (word) => ({
    type: 'script',
    language: 'javascript',
    source: `const fs = require('node:fs')
fs.appendFileSync('calls', '${word} ')
console.log(fs.readFileSync('calls', 'utf8'))`,
  }),
]
/** What a call asks for besides its run, and the key of the session in which it must run (null for none). */
const WAYS: readonly { more: Asked; keyOf(agent: string, run: string): string | null }[] = [
  { more: {}, keyOf: (agent, run) => `run:${agent}:${run}` },
  { more: {}, keyOf: (agent, run) => `run:${agent}:${run}` },
  { more: { lane: 'routine' }, keyOf: (agent, run) => `run:${agent}:${run}` },
  { more: { session: { key: 'mixed-1' } }, keyOf: () => 'mixed-1' },
  { more: { reuse: 'job' }, keyOf: () => null },
  { more: { limits: { pids: 100 } }, keyOf: () => null },
]

onProcess.it('any mixture of calls finds the files that a model predicts per agent and run', async () => {
  const next = numbers(7)
  const one = <T>(of: readonly T[]): T => of[next.next().value % of.length]!
  const kept = new Map<string, string>()
  // A session's limits come from its first execution, so begin each session with default limits.
  for (const agent of ['a', 'b'])
    for (const runId of ['mixed-1', 'mixed-2']) {
      expect(said(await run(runId, note('begin'), { agent_id: agent }))).toBe('begin')
      kept.set(`run:${agent}:${runId}`, 'begin ')
    }
  for (let batch = 0; batch < 5; batch += 1) {
    if (batch === 2) {
      await call('PATCH', '/tenants/acme/caps', { agent_hourly: 0 })
      expect((await run('mixed-1', note('refused'))).ending).toBe('cap_exceeded')
      await call('PATCH', '/tenants/acme/caps', { agent_hourly: 1000 })
    }
    const waiting: { id: ExecutionResult['execution_id']; expected: string }[] = []
    // Enqueued one after the other, and run when a worker takes them.
    for (let n = 0; n < 5; n += 1) {
      const [agent, runId, way, word] = [
        one(['a', 'b']),
        one(['mixed-1', 'mixed-2']),
        one(WAYS),
        `${batch}.${n}`,
      ]
      const key = way.keyOf(agent, runId)
      const expected = `${key === null ? '' : (kept.get(key) ?? '')}${word} `
      if (key !== null) kept.set(key, expected)
      const asked = request(runId, one(ADDS)(word), { agent_id: agent, ...way.more })
      waiting.push({ id: (await fleet.client.enqueue(asked)).execution_id, expected })
    }
    for (const { id, expected } of waiting)
      expect(said(await fleet.client.wait(id, { timeoutMs: 60_000 }).then((r) => r!))).toBe(expected.trim())
  }
})

onProcess.it('a program that is run again finds the session as it is now, and says so', async () => {
  await setPolicy({ keep_program: 'errors' })
  await using client = createClient({ baseUrl: api.url, apiKey: admin })
  const source = 'open("log", "a").write("x")\nprint(len(open("log").read()))\nraise SystemExit(1)'
  const first = await client.run(request('turn-8', python(source), { session: { key: 'notebook' } }))
  expect(first).toMatchObject({ exit_code: 1, stdout: '1\n' })
  const again = await client.executions.rerun(first.execution_id, { waitMs: 60_000 })
  expect(again).toMatchObject({ notes: [{ code: 'session_now' }], result: { stdout: '2\n' } })
  const alone = await client.executions.rerun(first.execution_id, { edit: { session: null }, waitMs: 60_000 })
  expect(alone).toMatchObject({ notes: [], result: { stdout: '1\n' } })
})

onProcess.it('a run continues in a fresh session on another worker, or without one by policy', async () => {
  await run('turn-7', note('one'))
  const heir = await fleet.runWorker(BACKENDS)
  await worker.close()
  const next = await run('turn-7', note('two'))
  expect(said(next)).toBe('two')
  expect(next.session).toMatchObject({ fresh: true })
  expect(said(await run('turn-7', note('three')))).toBe('two three')
  await setPolicy({ run_sessions: false })
  const alone = await run('turn-7', note('four'))
  expect(said(alone)).toBe('four')
  expect(alone.session ?? null).toBeNull()
  await heir.close()
})
