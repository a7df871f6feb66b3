/** Run again, as a caller meets it: API, queue and real workers, with programs kept encrypted on the disk. */
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import type { RunningApi } from '@cofferdam/api'
import { createClient, type HttpClient } from '@cofferdam/client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet, type FleetWorker } from '../fleet.ts'

const KEYS = { COFFERDAM_OUTPUT_KEYS: `k1:${randomBytes(32).toString('base64')}` }
const WORKER = { COFFERDAM_BACKENDS: 'none', COFFERDAM_SLOTS: '2', ...KEYS }
const SECRET = 'value-of-the-token-4711'

let fleet: Fleet
let api: RunningApi
let worker: FleetWorker
let client: HttpClient
let other: HttpClient
beforeAll(async () => {
  fleet = await startFleet()
  for (const tenant of ['acme', 'globex'])
    await fleet.createTenant(tenant, {
      policy: { min_isolation: 'none', keep_program: 'errors' },
      caps: { tenant_daily: 1000, agent_hourly: 1000 },
    })
  worker = await fleet.startWorker(WORKER)
  api = await fleet.runApi(KEYS)
  const clientOf = async (tenantId: string) =>
    createClient({
      baseUrl: api.url,
      apiKey: (await fleet.store.keys.create({ tenant_id: tenantId }, 'test')).key,
    })
  client = await clientOf('acme')
  other = await clientOf('globex')
})
afterAll(async () => {
  await client?.close()
  await other?.close()
  await fleet?.[Symbol.asyncDispose]()
})

const script = (source: string, more: object = {}) => ({
  tenant_id: 'acme',
  agent_id: 'a',
  backend: 'none',
  program: { type: 'script' as const, language: 'python' as const, source },
  ...more,
})

/** The files that the blob store has of an execution. */
function storedFiles(id: string): Buffer[] {
  const root = path.join(fleet.dataDir, 'blobs')
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.parentPath.includes(id))
    .map((entry) => readFileSync(path.join(entry.parentPath, entry.name)))
}

it('runs a failed program again with its files, variables and input, and compares both', async () => {
  const source = [
    'import hashlib, os, sys',
    'data = open("a.txt", "rb").read() + open("b.txt", "rb").read()',
    'print(hashlib.sha256(data).hexdigest(), len(data), sys.stdin.read(), len(os.environ["TOKEN"]))',
    'print("strict" in sys.argv)',
    'sys.exit(3 if "strict" in sys.argv else 0)',
  ].join('\n')
  const content = 'x'.repeat(8 * 1024 * 1024)
  const first = await client.run({
    ...script(source),
    program: { type: 'script', language: 'python', source, argv: ['strict'] },
    files: ['a.txt', 'b.txt'].map((name) => ({ path: name, content })),
    env: { TOKEN: SECRET },
    stdin: 'from stdin',
    limits: { memory_mib: 512, disk_mib: 256 },
  })
  expect(first).toMatchObject({ ending: 'error', exit_code: 3 })
  const bytes = Buffer.concat(storedFiles(first.execution_id))
  expect(bytes.length).toBeGreaterThan(16 * 1024 * 1024)
  for (const text of [SECRET, 'hashlib', 'from stdin', 'x'.repeat(64)])
    expect(bytes.includes(text)).toBe(false)

  const same = await client.executions.rerun(first.execution_id, { waitMs: 60_000 })
  expect(same).toMatchObject({ rerun_of: first.execution_id, notes: [], result: { exit_code: 3 } })
  expect(same.result?.stdout).toBe(first.stdout)
  const edited = await client.executions.rerun(first.execution_id, { edit: { args: [] }, waitMs: 60_000 })
  const id = edited.execution.execution_id
  expect(edited.result).toMatchObject({ ending: 'ok', exit_code: 0 })
  expect(await client.get(id)).toMatchObject({ rerun_of: first.execution_id })
  const { rows } = await fleet.store.listAudit({ tenantId: 'acme', limit: 1 })
  expect(rows[0]).toMatchObject({ rerun_of: first.execution_id, quota_charged: true })
  expect(await client.executions.compare(id)).toMatchObject({
    differences: ['ending', 'exit_code', 'stdout'],
    stdout: {
      lines: [{ kind: 'same' }, { kind: 'removed', text: 'True' }, { kind: 'added', text: 'False' }],
    },
  })
  // This execution ended ok, and `keep_program: errors` keeps no program of such an execution.
  await expect(client.executions.rerun(id)).rejects.toMatchObject({
    code: 'not_found',
    details: { keep_program: 'errors', kept_by: ['always'] },
  })
  const unknown = { code: 'not_found', message: 'There is no execution of that id.' }
  await expect(other.executions.rerun(first.execution_id)).rejects.toMatchObject(unknown)
  await expect(other.executions.compare(id, first.execution_id)).rejects.toMatchObject(unknown)
})

it('keeps the program of a killed worker once, and runs it again', async () => {
  const { execution_id: id } = await client.enqueue(
    script('import os, time\nprint("begun", flush=True)\ntime.sleep(0 if "FAST" in os.environ else 600)'),
  )
  for await (const { event } of client.stream(id)) if (event.type === 'output') break
  await worker.kill()
  expect(storedFiles(id)).toEqual([])
  worker = await fleet.startWorker(WORKER)
  expect(await client.wait(id, { timeoutMs: 120_000 })).toMatchObject({ ending: 'worker_lost' })
  expect(storedFiles(id)).toHaveLength(1)
  const again = await client.executions.rerun(id, { edit: { env: { FAST: '1' } }, waitMs: 60_000 })
  expect(again.result).toMatchObject({ ok: true, stdout: 'begun\n' })
})
