/** Outputs of a session outlive its sandbox: collected, listed and fetched as a caller does it. */
import { createHash } from 'node:crypto'
import type { RunningApi } from '@cofferdam/api'
import type { ExecutionRequestInput, ExecutionResult } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'

let fleet: Fleet
let api: RunningApi
const keys: Record<string, string> = {}

beforeAll(async () => {
  fleet = await startFleet()
  for (const tenant of ['acme', 'globex']) {
    await fleet.createTenant(tenant, { caps: { tenant_daily: 1000, agent_hourly: 1000 } })
    keys[tenant] = (await fleet.store.keys.create({ tenant_id: tenant }, 'test')).key
  }
  await fleet.runWorker({ COFFERDAM_BACKENDS: 'docker,process', COFFERDAM_SLOTS: '4' })
  api = await fleet.runApi()
})
afterAll(() => fleet?.[Symbol.asyncDispose]())

/** An execution in the session `key`, whose run has the same name. */
const run = (
  key: string,
  backend: string,
  program: ExecutionRequestInput['program'],
  more: Partial<ExecutionRequestInput> = {},
): Promise<ExecutionResult> =>
  fleet.client.run(
    { tenant_id: 'acme', agent_id: 'a', run_id: key, backend, program, session: { key }, ...more },
    { timeoutMs: 90_000 },
  )
const python = (source: string) => ({ type: 'script', language: 'python', source }) as const
const COLLECT = { type: 'files', op: 'collect', path: '.session/outputs' } as const

const ask = (path: string, tenant = 'acme') =>
  fetch(`${api.url}/v1/sessions/${path}`, { headers: { authorization: `Bearer ${keys[tenant]}` } })
const listed = async (id: string, tenant = 'acme') => {
  const { outputs, newest } = (await (await ask(`${id}/outputs`, tenant)).json()) as {
    outputs: { path: string; size: number; sha256: string; execution_id: string }[]
    newest: { execution_id: string; omitted: { path: string; reason: string }[]; incomplete: boolean } | null
  }
  return { outputs, newest }
}
const pathsOf = (outputs: { path: string }[]): string[] => outputs.map(({ path }) => path)

for (const backend of ['docker', 'process'] as const)
  needs(backend === 'process' ? 'process-namespaces' : backend).describe(
    `outputs of a session on ${backend}`,
    () => {
      // On the backend `process`, sessions of scope `processes` need a cgroup.
      const keepsProcesses = needs(backend === 'process' ? 'cgroups' : backend)
      it('are collected uncharged, and stay when the session has ended', async () => {
        const key = `sesn_${backend}_kept`
        const made = await run(
          key,
          backend,
          python(
            [
              'import os',
              'os.makedirs(".session/outputs/deep")',
              'open("/mnt/session/outputs/report.txt", "w").write("first")',
              'open("/mnt/session/outputs/deep/raw.bin", "wb").write(bytes(range(256)))',
              'open("beside.txt", "w").write("not an output")',
            ].join('\n'),
          ),
        )
        expect(made.error_message).toBeUndefined()
        const before = await fleet.admission.usage('acme', 'a')
        const first = await run(key, backend, COLLECT)
        expect(first).toMatchObject({ ok: true, collected_from: '.session/outputs', exit_code: null })
        expect(first.session).toEqual({ id: made.session?.id, fresh: false, interpreter: 'none' })
        expect(first.artifacts).toEqual([
          { path: 'report.txt', size: 5, sha256: createHash('sha256').update('first').digest('hex') },
          { path: 'deep/raw.bin', size: 256, sha256: expect.any(String) },
        ])
        await run(
          key,
          backend,
          python(
            'import os; os.remove(".session/outputs/deep/raw.bin")\n' +
              'open(".session/outputs/report.txt", "w").write("second")',
          ),
        )
        const second = await run(key, backend, COLLECT)
        const used = (await fleet.admission.usage('acme', 'a')).tenant_daily.used - before.tenant_daily.used
        expect(used).toBe(1)
        expect(await run(key, backend, { type: 'files', op: 'end' })).toMatchObject({ ok: true })

        const { outputs, newest } = await listed(key)
        expect(outputs).toMatchObject([
          { path: 'deep/raw.bin', size: 256, execution_id: first.execution_id },
          { path: 'report.txt', size: 6, execution_id: second.execution_id },
        ])
        expect(newest).toMatchObject({ execution_id: second.execution_id, omitted: [], incomplete: false })
        expect(await (await ask(`${key}/outputs/report.txt`)).text()).toBe('second')
        const raw = new Uint8Array(await (await ask(`${key}/outputs/deep/raw.bin`)).arrayBuffer())
        expect([...raw]).toEqual(Array.from({ length: 256 }, (_, n) => n))
        expect(await listed(key, 'globex')).toEqual({ outputs: [], newest: null })
        expect((await ask(`${key}/outputs/report.txt`, 'globex')).status).toBe(404)
      })

      it('are regular files with safe names only, however the folder was prepared', async () => {
        const key = `sesn_${backend}_hostile`
        const prepared = await run(
          key,
          backend,
          python(
            [
              'import os',
              'os.makedirs(".session/outputs")',
              'os.chdir(".session/outputs")',
              'os.symlink("/etc/passwd", "passwd")',
              'os.symlink("/etc", "etc")',
              'os.symlink("..", "up")',
              'os.mkfifo("pipe")',
              'open(b"caf\\xff", "w").write("x")',
              'open("back\\\\slash", "w").write("x")',
              'open("*", "w").write("x")',
              'open("huge", "w").truncate(9 * 1024 * 1024)',
              'os.mkdir("locked"); open("locked/x", "w").close(); os.chmod("locked", 0)',
            ].join('\n'),
          ),
        )
        expect(prepared).toMatchObject({ ok: true, session: { fresh: true } })
        expect(await run(key, backend, COLLECT)).toMatchObject({ ok: true })
        const { outputs, newest } = await listed(key)
        expect(pathsOf(outputs)).toEqual(['*', 'back\\slash'])
        expect(newest?.omitted).toEqual([
          { path: 'caf\ufffd', size: 1, reason: 'unsafe_name' },
          { path: 'huge', size: 9 * 1024 * 1024, reason: 'too_large' },
        ])
        expect((await ask(`${key}/outputs/passwd`)).status).toBe(404)
        expect(await (await ask(`${key}/outputs/${encodeURIComponent('back\\slash')}`)).text()).toBe('x')
      })

      it('are bounded by the limits of the request, also if a program made 10,000', async () => {
        const key = `sesn_${backend}_many`
        const made = await run(
          key,
          backend,
          python(
            'import os\nos.makedirs(".session/outputs")\n' +
              'for n in range(10_000): open(f".session/outputs/{n:05}", "w").close()',
          ),
        )
        expect(made).toMatchObject({ ok: true })
        const collected = await run(key, backend, COLLECT, { limits: { artifact_count: 50 } })
        expect(collected.artifacts).toHaveLength(50)
        expect(collected.artifacts_omitted).toHaveLength(100)
        expect(collected.artifacts_incomplete).toBe(true)
        expect((await listed(key)).newest?.incomplete).toBe(true)
      })

      it('are never another folder in its place, and a missing folder has none', async () => {
        const key = `sesn_${backend}_link`
        const linked = await run(key, backend, python('import os; os.symlink("/etc", ".session")'))
        expect(linked).toMatchObject({ ok: true, session: { fresh: true } })
        const nothing = { ok: true, artifacts: [] }
        expect(await run(key, backend, { ...COLLECT, path: '.session' })).toMatchObject(nothing)
        expect(await run(key, backend, { ...COLLECT, path: '.session/ssl' })).toMatchObject(nothing)
        expect(await run(key, backend, { ...COLLECT, path: 'nowhere' })).toMatchObject(nothing)
        expect((await listed(key)).outputs).toEqual([])
      })

      keepsProcesses.it(
        'are files as they were when they were read, also while a program still writes them',
        async () => {
          const key = `sesn_${backend}_grows`
          const session = { session: { key, scope: 'processes' } } as const
          const source =
            'mkdir -p .session/outputs && cd .session/outputs && printf x > log\n' +
            '(for n in $(seq 5000); do printf "%1000d" $n >> log; sleep 0.01; done) > /dev/null 2>&1 &'
          const started = await run(key, backend, { type: 'script', language: 'bash', source }, session)
          expect(started).toMatchObject({ ok: true })
          const sizeOfLog = async () => {
            const { artifacts } = await run(key, backend, COLLECT, session)
            const bytes = new Uint8Array(await (await ask(`${key}/outputs/log`)).arrayBuffer())
            const sha256 = createHash('sha256').update(bytes).digest('hex')
            expect(artifacts).toEqual([{ path: 'log', size: bytes.length, sha256 }])
            return bytes.length
          }
          const first = await sizeOfLog()
          await expect.poll(sizeOfLog, { timeout: 60_000 }).toBeGreaterThan(first)
          expect(await run(key, backend, { type: 'files', op: 'end' }, session)).toMatchObject({ ok: true })
        },
      )

      it('need a session that has a sandbox', async () => {
        const refused = await run(`sesn_${backend}_gone`, backend, COLLECT)
        expect(refused).toMatchObject({ ok: false, reason: 'session_not_found', artifacts: [] })
        expect(await listed(`sesn_${backend}_gone`)).toEqual({ outputs: [], newest: null })
      })
    },
  )

it('a collection without a folder is refused', async () => {
  const asked = run('sesn_x', 'process', { type: 'files', op: 'collect' })
  await expect(asked).rejects.toMatchObject({ code: 'invalid_request' })
})
