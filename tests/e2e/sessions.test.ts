/**
 * `/v1/sessions` and the sessions of a backend as a tenant sees them: list, read and end sessions with real
 * sandboxes.
 */
import type { RunningApi } from '@cofferdam/api'
import type { ExecutionRequestInput, ExecutionResult } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { DAY_MS, untilWindowLasts } from '../../libs/embedded/src/window-end.ts'
import { startFleet, type Fleet, type FleetWorker } from '../fleet.ts'

const onProcess = needs('process-namespaces')
let fleet: Fleet
let worker: FleetWorker
let api: RunningApi
const keys: Record<string, string> = {}

beforeAll(async () => {
  fleet = await startFleet()
  for (const tenant of ['acme', 'globex', 'stopped', 'spent']) {
    await fleet.createTenant(tenant, {
      caps: { tenant_daily: tenant === 'spent' ? 1 : 1000, agent_hourly: 1000 },
    })
    keys[tenant] = (await fleet.store.keys.create({ tenant_id: tenant }, 'test')).key
  }
  keys['admin'] = (await fleet.store.keys.create('admin', 'test')).key
  worker = await fleet.startWorker({ COFFERDAM_BACKENDS: 'docker,process', COFFERDAM_SLOTS: '4' })
  api = await fleet.runApi()
})
afterAll(() => fleet?.[Symbol.asyncDispose]())

const run = (
  key: string,
  source: string,
  more: Partial<ExecutionRequestInput> = {},
): Promise<ExecutionResult> =>
  fleet.client.run(
    {
      tenant_id: 'acme',
      agent_id: 'a',
      backend: 'process',
      program: { type: 'script', language: 'python', source },
      session: { key, scope: 'files' },
      ...more,
    },
    { timeoutMs: 90_000 },
  )

interface Answer {
  status: number
  text: string
  // The tests check the content of the answer.
  // oxlint-disable-next-line typescript/no-explicit-any
  json: any
  headers: Headers
}

async function call(
  method: string,
  path: string,
  options: { as?: string; body?: Uint8Array } = {},
): Promise<Answer> {
  const { as = 'acme', body } = options
  const response = await fetch(`${api.url}/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${keys[as]}`,
      ...(body === undefined ? {} : { 'content-type': 'application/octet-stream' }),
    },
    ...(body === undefined ? {} : { body }),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.includes('json') === true
  return { status: response.status, text, json: isJson ? JSON.parse(text) : null, headers: response.headers }
}

const invocations = async (tenantId: string) => (await fleet.store.listAudit({ tenantId, limit: 500 })).rows

for (const backend of ['docker', 'process'] as const)
  needs(backend === 'process' ? 'process-namespaces' : backend).describe(`a session on ${backend}`, () => {
    it('is listed with its current user while it exists, and hidden from other tenants', async () => {
      const first = await run(`${backend}-seen`, 'print(1)', { backend })
      const path = `/backends/${backend}/sessions/${backend}-seen`
      await expect.poll(async () => (await call('GET', path)).json?.state, { timeout: 20_000 }).toBe('idle')
      const seen = (await call('GET', path)).json
      expect(seen).toMatchObject({
        tenant_id: 'acme',
        backend,
        key: `${backend}-seen`,
        session_id: first.session?.id,
        scope: 'files',
        worker: null,
        owner: expect.stringMatching(/^wrk_/),
        last_execution_id: first.execution_id,
      })
      expect(Date.parse(seen.idle_at)).toBeGreaterThan(Date.parse(seen.used_at))
      expect((await call('GET', '/sessions')).json.sessions).toContainEqual(seen)
      expect((await call('GET', '/sessions', { as: 'globex' })).json.sessions).toEqual([])
      expect((await call('GET', path, { as: 'globex' })).status).toBe(404)
      expect((await call('GET', `${path}?tenant_id=acme`, { as: 'globex' })).json.error.code).toBe(
        'forbidden',
      )
      expect((await call('GET', '/sessions', { as: 'admin' })).json.error.code).toBe('invalid_request')
      expect((await call('GET', `${path}?tenant_id=acme`, { as: 'admin' })).json).toEqual(seen)
    })

    it('stores, lists, returns and deletes files, audited and not charged', async () => {
      const key = `${backend}-files`
      const made = await run(key, 'open("own.txt", "w").write("of the program")', { backend })
      const before = await fleet.admission.usage('acme', 'a')
      const files = `/backends/${backend}/sessions/${key}/files`
      const bytes = Uint8Array.from([0, 255, 10, 200])
      expect((await call('PUT', `${files}/deep/raw.bin`, { body: bytes })).status).toBe(204)
      expect((await call('GET', files)).json).toEqual({
        files: [
          { path: 'deep/raw.bin', size: 4 },
          { path: 'main.py', size: 44 },
          { path: 'own.txt', size: 14 },
        ],
        truncated: false,
      })
      expect((await call('GET', `${files}?folder=deep`)).json.files).toEqual([
        { path: 'deep/raw.bin', size: 4 },
      ])
      const got = await fetch(`${api.url}/v1${files}/deep/raw.bin`, {
        headers: { authorization: `Bearer ${keys['acme']}` },
      })
      expect(new Uint8Array(await got.arrayBuffer())).toEqual(bytes)
      expect(got.headers.get('content-disposition')).toContain('attachment; filename="raw.bin"')
      // The program finds the file in the same sandbox.
      const read = await run(key, 'print(open("deep/raw.bin", "rb").read())', { backend })
      expect(read).toMatchObject({
        stdout: "b'\\x00\\xff\\n\\xc8'\n",
        session: { id: made.session?.id, fresh: false },
      })
      expect((await call('DELETE', `${files}/own.txt`)).status).toBe(204)
      expect((await call('GET', `${files}/own.txt`)).json.error).toMatchObject({ code: 'not_found' })
      const after = await fleet.admission.usage('acme', 'a')
      expect(after.tenant_daily.used - before.tenant_daily.used).toBe(1)
      const rows = (await invocations('acme')).filter(
        ({ agent_id, session_id }) => agent_id === 'sessions' && session_id === made.session?.id,
      )
      expect(
        rows.map(({ quota_charged, exit_status }) => `${exit_status} ${quota_charged}`).toSorted(),
      ).toEqual(['error false', 'ok false', 'ok false', 'ok false', 'ok false', 'ok false'])
    })

    it('ends on request, and the next execution finds nothing of it', async () => {
      const key = `${backend}-ended`
      const first = await run(key, 'open("note.txt", "w").write("kept")', { backend })
      expect((await call('DELETE', `/backends/${backend}/sessions/${key}`)).status).toBe(204)
      await expect
        .poll(async () => (await call('GET', `/backends/${backend}/sessions/${key}`)).status, {
          timeout: 20_000,
        })
        .toBe(404)
      expect((await call('DELETE', `/backends/${backend}/sessions/${key}`)).status).toBe(404)
      const mustExist = { backend, session: { key, must_exist: true } }
      const refused = await run(key, 'print(1)', mustExist)
      expect(refused).toMatchObject({ ending: 'provisioning', reason: 'session_not_found', stdout: '' })
      expect(refused).not.toHaveProperty('session')
      const [row] = (await invocations('acme')).filter(
        ({ execution_id }) => execution_id === refused.execution_id,
      )
      expect(row).toMatchObject({ quota_charged: false, session_id: null })
      const next = await run(key, 'import os; print(os.path.exists("note.txt"))', { backend })
      expect(await run(key, 'print(1)', mustExist)).toMatchObject({
        stdout: '1\n',
        session: { id: next.session?.id, fresh: false },
      })
      expect(next.stdout).toBe('False\n')
      expect([next.session?.fresh, next.session?.id === first.session?.id]).toEqual([true, false])
    })
  })

onProcess.it('never reads or writes through a link out of the work directory', async () => {
  await run('links', 'import os; os.symlink("/etc/passwd", "out"); os.symlink("/tmp", "aside")')
  const files = '/backends/process/sessions/links/files'
  expect((await call('GET', `${files}/out`)).status).toBeGreaterThanOrEqual(400)
  expect((await call('PUT', `${files}/aside/x`, { body: new Uint8Array(1) })).status).toBeGreaterThanOrEqual(
    400,
  )
  expect((await call('GET', `${files}/%2e%2e%2fsecret`)).status).toBe(400)
})

onProcess.it('a file operation waits for its turn behind what runs in the session', async () => {
  await run('busy', 'pass')
  const running = run('busy', 'import time; time.sleep(7); open("late.txt", "w").write("done")')
  await expect
    .poll(async () => (await call('GET', '/backends/process/sessions/busy')).json?.state, { timeout: 20_000 })
    .toBe('running')
  const got = await call('GET', '/backends/process/sessions/busy/files/late.txt')
  expect([got.status, got.text]).toEqual([200, 'done'])
  expect(await running).toMatchObject({ ok: true })
})

onProcess.it(
  'files can be used when the runs of the day are used up, but not while the tenant is off',
  async () => {
    await untilWindowLasts(DAY_MS, 60_000)
    await run('mine', 'open("x", "w").write("1")', { tenant_id: 'spent' })
    expect(await run('mine', 'pass', { tenant_id: 'spent' })).toMatchObject({ ending: 'cap_exceeded' })
    expect((await call('GET', '/backends/process/sessions/mine/files/x', { as: 'spent' })).text).toBe('1')
    await run('mine', 'open("x", "w").write("1")', { tenant_id: 'stopped' })
    await fleet.admission.setCaps('stopped', {
      ...(await fleet.admission.getCaps('stopped')),
      tenant_daily: 0,
    })
    const refused = await call('GET', '/backends/process/sessions/mine/files/x', { as: 'stopped' })
    expect(refused.json.error).toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('switched off'),
    })
  },
)

onProcess.it(
  'a session is lost with a killed worker, and removed by a clean stop',
  { timeout: 180_000 },
  async () => {
    await run('left', 'pass')
    await expect
      .poll(async () => (await call('GET', '/backends/process/sessions/left')).json?.state, {
        timeout: 20_000,
      })
      .toBe('idle')
    expect(await worker.stop()).toBe(0)
    expect((await call('GET', '/sessions')).json.sessions).toEqual([])
    worker = await fleet.startWorker({ COFFERDAM_BACKENDS: 'process' })
    await run('left', 'pass')
    await expect
      .poll(async () => (await call('GET', '/backends/process/sessions/left')).json?.state, {
        timeout: 20_000,
      })
      .toBe('idle')
    await worker.kill()
    worker = await fleet.startWorker({ COFFERDAM_BACKENDS: 'process' })
    // The dead worker's session may be listed for up to a minute. Its files are gone, and the API starts no
    // sandbox to look for them.
    expect((await call('GET', '/backends/process/sessions/left/files')).json.error.code).toBe(
      'session_not_found',
    )
    expect(await run('left', 'pass', { session: { key: 'left', must_exist: true } })).toMatchObject({
      reason: 'session_not_found',
    })
  },
)
