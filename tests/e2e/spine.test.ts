/** One execution from end to end, as a client sees it, on each local backend that isolates. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fleetOf, type ExecutionRequestInput, type WorkerId } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { needs, needsBackend } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startReceiver, type Receiver } from '../../libs/telemetry/test/otlp-receiver.ts'
import { startFleet, type Fleet, type FleetWorker } from '../fleet.ts'

let fleet: Fleet
let worker: FleetWorker
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  fleet = await startFleet()
  await fleet.createTenant('acme', { caps: { tenant_daily: 10_000, agent_hourly: 10_000 } })
  worker = await fleet.startWorker({
    COFFERDAM_BACKENDS: 'docker,process',
    COFFERDAM_SLOTS: '4',
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
  })
})
afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]()
  await receiver?.close()
})

const script = (
  backend: string,
  language: 'python' | 'javascript' | 'typescript' | 'bash',
  source: string,
  more: Partial<ExecutionRequestInput> = {},
): ExecutionRequestInput => ({
  tenant_id: 'acme',
  agent_id: 'analyst',
  backend,
  program: { type: 'script', language, source },
  ...more,
})

const run = (request: ExecutionRequestInput) => fleet.client.run(request, { timeoutMs: 90_000 })

/** Command lines of all processes of this host. */
function commandLines(): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        return [readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')]
      } catch {
        return []
      }
    })
}

for (const backend of ['docker', 'process'])
  needsBackend(backend).describe(`on ${backend}`, () => {
    it.each([
      ['python', 'import sys\nprint("hi", sys.argv[1:])\n6*7', 'hi []\n', 42],
      ['javascript', 'console.log("hi"); module.exports = { a: [1] }', 'hi\n', { a: [1] }],
      ['typescript', 'enum A { x = 3 }\nconst n: number = A.x\nconsole.log(n)\nexport default n', '3\n', 3],
      ['bash', 'echo hi; echo oops >&2', 'hi\n', undefined],
    ] as const)('runs %s and returns output and value', async (language, source, stdout, value) => {
      const result = await run(script(backend, language, source))
      expect(result).toMatchObject({ ok: true, ending: 'ok', exit_code: 0, stdout, backend })
      expect(result.value).toEqual(value)
    })

    it('takes files and stdin in, and returns artifacts byte for byte', async () => {
      const bytes = Buffer.from([0, 255, 1, 254, 10])
      const result = await run(
        script(
          backend,
          'python',
          'import sys,lib\nopen("out.bin","wb").write(open("in.bin","rb").read()[::-1])\nprint(lib.x + sys.stdin.read())',
          {
            files: [
              { path: 'lib.py', content: 'x = "lib:"' },
              { path: 'in.bin', content_base64: bytes.toString('base64') },
            ],
            stdin: 'über',
            artifacts: ['*.*'],
          },
        ),
      )
      expect(result).toMatchObject({ ok: true, stdout: 'lib:über\n' })
      expect(result.artifacts.map(({ path, size }) => [path, size]).sort()).toEqual([
        ['in.bin', 5],
        ['lib.py', 10],
        ['out.bin', 5],
      ])
      const stored = await fleet.store.findExecution('acme', result.execution_id)
      const ref = stored?.artifactRefs.find(({ path }) => path === 'out.bin')?.ref ?? ''
      expect([...((await fleet.store.blobs.read(ref))?.bytes ?? [])]).toEqual([10, 254, 1, 255, 0])
    })

    it('lets a program call the interpreters of its sandbox', async () => {
      const result = await run(script(backend, 'bash', 'node -p 40+2; python3 -c "print(43)"'))
      expect(result).toMatchObject({ ok: true, stdout: '42\n43\n' })
    })

    it('keeps what a program printed before its soft deadline', async () => {
      const result = await run(
        script(backend, 'python', 'import time\nprint("before", flush=True)\ntime.sleep(60)', {
          // An interpreter starts in 50 ms, or in ten times as long on a slow machine.
          limits: { soft_timeout_ms: 3000, hard_timeout_ms: 30_000 },
        }),
      )
      expect(result).toMatchObject({
        ending: 'soft_timeout',
        exit_status: 'timeout',
        error: 'SandboxTimeout',
        stdout: 'before\n',
      })
      expect(result.stderr).toContain('KeyboardInterrupt')
    })

    it('kills a whole process tree that ignores every signal at the hard deadline', async () => {
      const marker = `9${Math.floor(Math.random() * 1e8)}`
      const source = `trap '' INT TERM HUP\necho started\nsetsid sleep ${marker} &\n(trap '' INT TERM; while :; do sleep ${marker}; done) &\nwhile :; do sleep 1; done`
      const result = await run(
        script(backend, 'bash', source, { limits: { soft_timeout_ms: 2000, hard_timeout_ms: 3000 } }),
      )
      expect(result).toMatchObject({ ending: 'hard_timeout', exit_status: 'timeout', stdout: 'started\n' })
      await expect
        .poll(() => commandLines().filter((line) => line.includes(marker)), { timeout: 20_000 })
        .toEqual([])
    })

    it('reports out of memory as oom', async () => {
      const result = await run(
        script(backend, 'python', 'b = []\nwhile True: b.append(bytearray(8 << 20))', {
          limits: { memory_mib: 64 },
        }),
      )
      expect(result).toMatchObject({ ending: 'oom', exit_status: 'oom', error: 'SandboxOOM', ok: false })
    })

    it('bounds large output, counts its raw bytes and never splits a character', async () => {
      const source = 'import sys\nw = sys.stdout.buffer.write\nfor _ in range(4096): w("€".encode() * 4096)'
      const result = await run(script(backend, 'python', source, { limits: { stdout_bytes: 1000 } }))
      expect(result).toMatchObject({ ok: true, stdout_bytes: 3 * 4096 * 4096, stdout_truncated: true })
      expect(result.stdout).toBe('€'.repeat(333))
    })

    it('redacts secrets however they are split, and keeps the full redacted output', async () => {
      const secret = 'hunter2-hunter2-hunter2'
      const source = `import os,sys,time\ns=os.environ["DB_PASSWORD"]\nfor c in "x" * 3000 + s + s[::-1]:\n  os.write(1, c.encode())`
      const result = await run(
        script(backend, 'python', source, { env: { DB_PASSWORD: secret }, limits: { stdout_bytes: 100 } }),
      )
      expect(result.stdout_bytes).toBe(3000 + 2 * secret.length)
      const stored = await fleet.store.findExecution('acme', result.execution_id)
      const full = await fleet.store.blobs.read(stored?.audit[0]?.stdout_ref ?? '')
      expect(Buffer.from(full?.bytes ?? []).toString()).toBe(
        `${'x'.repeat(3000)}<redacted>${secret.split('').toReversed().join('')}`,
      )
    })

    // Without namespaces, the names of the host's files are visible.
    const hidden = needs(backend === 'docker' ? 'docker' : 'process-namespaces')
    hidden.it('has no network, no host files and no Docker socket', async () => {
      const source = [
        'import os, socket',
        'def tried(f):',
        '  try: f(); return "reached"',
        '  except OSError: return "refused"',
        'def connect(*a): s = socket.create_connection(a, 2)',
        'print(tried(lambda: connect("127.0.0.1", 22)), tried(lambda: connect("169.254.169.254", 80)), tried(lambda: connect("1.1.1.1", 53)))',
        'print(os.path.exists("/var/run/docker.sock"), tried(lambda: open("/etc/shadow").read()), tried(lambda: open("/proc/1/environ").read()))',
        'print(sorted(k for k in os.environ if k not in ("PATH","HOME","LANG","TMPDIR","TZ","TRACEPARENT","PWD","HOSTNAME","LC_CTYPE")))',
      ].join('\n')
      const result = await run(script(backend, 'python', source))
      expect(result.stdout).toBe('refused refused refused\nFalse refused refused\n[]\n')
    })

    it('leaves one trace from the producer to the program', async () => {
      const traceId = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString('hex')
      const result = await run(
        script(backend, 'bash', 'echo $TRACEPARENT', { traceparent: `00-${traceId}-00f067aa0ba902b7-01` }),
      )
      expect(result.trace_id).toBe(traceId)
      const ofTrace = () => receiver.spans.filter((span) => span.traceId === traceId)
      await expect
        .poll(
          () =>
            ofTrace()
              .map((span) => span.name)
              .sort(),
          { timeout: 30_000 },
        )
        .toEqual([
          'admission',
          'audit.record',
          'process interactive',
          'program.run',
          'result.publish',
          'sandbox.acquire',
          'sandbox.prepare',
        ])
      const spans = new Map(ofTrace().map((span) => [span.name, span]))
      expect(spans.get('process interactive')?.parentSpanId).toBe('00f067aa0ba902b7')
      for (const name of [
        'admission',
        'sandbox.acquire',
        'sandbox.prepare',
        'program.run',
        'audit.record',
        'result.publish',
      ])
        expect(spans.get(name)?.parentSpanId, name).toBe(spans.get('process interactive')?.spanId)
      expect(result.stdout).toBe(`00-${traceId}-${spans.get('program.run')?.spanId}-01\n`)
    })

    it('stops a running program when it is cancelled', async () => {
      const accepted = await fleet.client.enqueue(script(backend, 'bash', 'echo up; sleep 600'))
      for await (const { event } of fleet.client.stream(accepted.execution_id))
        if (event.type === 'output') break
      expect(await fleet.client.cancel(accepted.execution_id)).toBe('cancelling')
      const result = await fleet.client.wait(accepted.execution_id, { timeoutMs: 30_000 })
      expect(result).toMatchObject({ ending: 'cancelled', exit_status: 'cancelled', stdout: 'up\n' })
    })
  })

it('refuses what no configured backend can do, with the reason, and charges nothing', async () => {
  const before = (await fleet.admission.usage('acme')).tenant_daily.used
  const result = await run(script('auto', 'python', 'print(1)', { preload: 'unheard-of' }))
  expect(result).toMatchObject({
    ok: false,
    exit_status: 'provisioning',
    error: 'SandboxProvisioning',
    reason: 'capability_missing',
  })
  expect(result.error_message).toMatch(/preload unheard-of/)
  expect((await fleet.admission.usage('acme')).tenant_daily.used).toBe(before)
})

it('never lets a caller weaken the isolation that its tenant demands', async () => {
  await fleet.createTenant('strict', { policy: { min_isolation: 'microvm' } })
  const result = await run({
    ...script('auto', 'python', 'print(1)', { min_isolation: 'none' }),
    tenant_id: 'strict',
  })
  expect(result).toMatchObject({ ok: false, exit_status: 'provisioning' })
  expect(result.error_message).toMatch(/docker.*container/s)
})

needs('process').it('a cap is enforced exactly, says when it resets, and stops everything at 0', async () => {
  await fleet.createTenant('capped', { caps: { tenant_daily: 2 } })
  const capped = { ...script('process', 'bash', 'true'), tenant_id: 'capped' }
  const results = await Promise.all(Array.from({ length: 5 }, () => run(capped)))
  expect(results.map((r) => r.ending).sort()).toEqual([
    'cap_exceeded',
    'cap_exceeded',
    'cap_exceeded',
    'ok',
    'ok',
  ])
  const refused = results.find((r) => r.ending === 'cap_exceeded')
  expect(refused).toMatchObject({ error: 'SandboxCapExceeded', dimension: 'tenant_daily' })
  expect(new Date(refused?.resets_at ?? 0).getTime() % 86_400_000).toBe(0)
  const rows = (await fleet.store.listAudit({ tenantId: 'capped', limit: 10 })).rows
  expect(rows.map((row) => row.quota_charged).sort()).toEqual([false, false, false, true, true])

  await fleet.admission.setCaps('capped', { ...(await fleet.admission.getCaps('capped')), tenant_daily: 0 })
  expect(await run(capped)).toMatchObject({ ending: 'cap_exceeded', kill_switch: true })
})

needs('docker').it('the fleet leaves no container behind', async () => {
  await worker.stop()
  // Look only for containers of this fleet, because tests of other files may run at the same time.
  const redis = connectRedis(fleet.redisUrl, 'worker')
  const fleetId = await redis.get('{cofferdam}:fleet')
  redis.disconnect()
  const owners = ['ps', '-a', '--filter', 'label=cofferdam.owner', '--format', '{{.Label "cofferdam.owner"}}']
  const left = execFileSync('docker', owners, { encoding: 'utf8' }).split('\n').filter(Boolean)
  expect(fleetId).toMatch(/^[0-9a-f]{12}$/)
  expect(left.filter((owner) => fleetOf(owner as WorkerId) === fleetId)).toEqual([])
})
