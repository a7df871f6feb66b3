/** Pause, resume and fork of a session as a tenant meets them: API, queue, two host groups, real machines. */
import { createReadStream, mkdtempSync, rmSync } from 'node:fs'
import { readdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RunningApi } from '@cofferdam/api'
import { createClient, type HttpClient } from '@cofferdam/client'
import type { ExecutionRequestInput, ExecutionResult } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect } from 'vitest'
import { startFleet, type Fleet, type FleetWorker } from '../fleet.ts'

const { describe, it } = needs('microvm')
const MINUTES = 900_000
const KEYS = `k1:${Buffer.alloc(32, 7).toString('base64')}`
const SECRET = 'correct-horse-battery-staple'

describe('a session on disk', { timeout: MINUTES }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-paused-e2e-'))
  let fleet: Fleet
  let api: RunningApi
  let client: HttpClient
  beforeAll(async () => {
    fleet = await startFleet()
    await fleet.createTenant('acme', {
      policy: { allow_emulation: true },
      caps: { tenant_daily: 1000, agent_hourly: 1000 },
    })
    const common = { COFFERDAM_DATA_DIR: fleet.dataDir, COFFERDAM_OUTPUT_KEYS: KEYS }
    api = await fleet.runApi(common)
    const { key } = await fleet.store.keys.create({ tenant_id: 'acme' }, 'test')
    client = createClient({ baseUrl: api.url, apiKey: key })
  }, MINUTES)
  afterAll(async () => {
    await client?.close()
    await fleet?.[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true })
  })

  async function startWorker(hostGroup: string): Promise<FleetWorker> {
    const file = join(folder, `${hostGroup}.yaml`)
    // No `runtime_dir` is set, because the default one has a template already.
    const backend = { paused_dir: join(folder, hostGroup), host_group: hostGroup }
    await writeFile(file, JSON.stringify({ backends: { microvm: backend } }))
    return await fleet.startWorker({ COFFERDAM_CONFIG: file, COFFERDAM_OUTPUT_KEYS: KEYS })
  }

  const run = (
    key: string,
    source: string,
    more: Partial<ExecutionRequestInput> = {},
  ): Promise<ExecutionResult> =>
    fleet.client.run(
      {
        tenant_id: 'acme',
        agent_id: 'a',
        backend: 'microvm',
        program: { type: 'script', language: 'python', source },
        session: { key, scope: 'interpreter' },
        ...more,
      },
      { timeoutMs: 300_000 },
    )

  it('is listed as paused, survives kill -9 of its worker, is sealed, and is audited', async () => {
    const worker = await startWorker('group-a')
    await expect
      .poll(() => run('desk', `word = "${SECRET}"`), { timeout: 400_000, interval: 1000 })
      .toMatchObject({ ok: true, session: { fresh: true } })
    const name = { backend: 'microvm', key: 'desk' }
    const { session_id } = await client.sessions.get(name)

    await client.sessions.pause(name)
    expect(await client.sessions.get(name)).toMatchObject({ state: 'paused', owner: null, session_id })
    await client.sessions.pause(name)
    const paused = join(folder, 'group-a')
    const [only = 'none', ...others] = await readdir(paused)
    expect(others).toEqual([])
    expect(await holds(join(paused, only, 'machine'), SECRET)).toBe(false)

    await worker.kill()
    await startWorker('group-a')
    expect(await run('desk', 'print(word)')).toMatchObject({
      ok: true,
      stdout: `${SECRET}\n`,
      session: { id: session_id, fresh: false, interpreter: 'kept' },
    })
    expect(await readdir(paused)).toEqual([])
    await expect.poll(async () => (await client.sessions.get(name)).state, { timeout: 30_000 }).toBe('idle')

    await client.sessions.pause(name)
    await client.sessions.resume(name)
    expect(await readdir(paused)).toEqual([])
    const { sessions } = await client.sessions.fork(name, ['left', 'right'])
    expect(sessions.map(({ key }) => key)).toEqual(['left', 'right'])
    await expect(client.sessions.fork(name, ['left'])).rejects.toMatchObject({ code: 'conflict' })
    expect(await client.sessions.get({ backend: 'microvm', key: 'left' })).toMatchObject({ state: 'paused' })
    expect(await run('left', 'print("word" in globals())')).toMatchObject({
      stdout: 'False\n',
      session: { id: sessions[0]?.session_id, fresh: false, interpreter: 'restarted' },
    })
    await client.sessions.end({ backend: 'microvm', key: 'right' })
    await expect(client.sessions.get({ backend: 'microvm', key: 'right' })).rejects.toMatchObject({
      code: 'session_not_found',
    })
    expect(await readdir(paused)).toEqual([])

    const rows = await fleet.store.listAudit({ tenantId: 'acme', limit: 100 })
    const acts = rows.rows
      .filter(({ program_kind }) => program_kind === 'files')
      .map(({ ending, quota_charged }) => ({ ending, quota_charged }))
    // pause, pause, pause, resume, fork, fork (a conflict), end
    expect(acts).toHaveLength(7)
    expect(acts.filter(({ ending }) => ending === 'ok')).toHaveLength(6)
    expect(acts.every(({ quota_charged }) => !quota_charged)).toBe(true)
    const events = await fleet.store.tenants.events('acme')
    expect(events.map(({ event_type }) => event_type)).toEqual(
      expect.arrayContaining(['session_paused', 'session_resumed', 'session_forked', 'session_ended']),
    )
  })

  it('is refused by a worker of another host group, which names both, and stays paused', async () => {
    await client.sessions.pause({ backend: 'microvm', key: 'desk' })
    await fleet.stopWorkers()
    await startWorker('group-b')
    await expect
      .poll(() => run('other', '1'), { timeout: 400_000, interval: 1000 })
      .toMatchObject({ ok: true })
    expect(await run('desk', 'print(word)')).toMatchObject({
      ending: 'provisioning',
      reason: 'conflict',
      error_message: expect.stringMatching(/host group group-a.*group-b/) as string,
    })
    expect(await client.sessions.get({ backend: 'microvm', key: 'desk' })).toMatchObject({ state: 'paused' })
  })
})

/** Whether a file has this text anywhere. */
async function holds(path: string, text: string): Promise<boolean> {
  let tail = Buffer.alloc(0)
  for await (const chunk of createReadStream(path)) {
    const seen = Buffer.concat([tail, chunk as Buffer])
    if (seen.includes(text)) return true
    tail = seen.subarray(-text.length)
  }
  return false
}
