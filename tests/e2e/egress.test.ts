/** Network access as a client sees it: allowed hosts, packages through the proxy, test runs with them. */
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import type { ExecutionRequestInput, ExecutionResult, Program } from '@cofferdam/contract'
import { inLongTier, isLongTier, needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startPypiMirror } from '../../infra/doubles/pypi/pypi-mirror.ts'
import { buildWheel } from '../../infra/doubles/pypi/python-package.ts'
import { startFleet, type Fleet } from '../fleet.ts'

/** A loopback address that programs do not take for their own (NO_PROXY in the sandbox is 127.0.0.1). */
const HOST = '127.0.0.2'

let fleet: Fleet
let origin: Server
let port = 0
const seen: string[] = []
const stack = new AsyncDisposableStack()

beforeAll(async () => {
  fleet = stack.use(await startFleet())
  origin = createServer((request, answer) => {
    seen.push(`${request.method} ${request.url}`)
    if (request.url === '/away') answer.writeHead(302, { location: 'http://169.254.169.254/latest/' }).end()
    else answer.end('hello from outside')
  }).listen(0, HOST)
  await once(origin, 'listening')
  stack.defer(() => void origin.close())
  port = (origin.address() as AddressInfo).port
  const pypi = stack.use(
    await startPypiMirror({
      distributions: [
        buildWheel({
          name: 'sums',
          version: '1.0',
          files: { 'sums.py': 'def add(a, b):\n    return a + b\n' },
        }),
        buildWheel({
          name: 'sums',
          version: '2.0',
          files: { 'sums.py': 'def add(a, b):\n    return a - b\n' },
        }),
        buildWheel({ name: 'typosquat', version: '9.9', files: { 'typosquat.py': '' } }),
      ],
    }),
  )
  await fleet.createTenant('acme', {
    policy: {
      network: { allow: [`${HOST}:${port}`] },
      packages: { pypi: ['sums==1.*'], npm: [] },
    },
    caps: { tenant_daily: 10_000, agent_hourly: 10_000 },
  })
  await fleet.createTenant('closed', { policy: { network: 'none' } })
  const config = path.join(fleet.dataDir, 'cofferdam.config.yaml')
  await writeFile(
    config,
    JSON.stringify({
      egress: { private_allow: [`127.0.0.0/8:${port}`], package_mirrors: { pypi: pypi.url } },
    }),
  )
  await fleet.runWorker({
    COFFERDAM_CONFIG: config,
    COFFERDAM_BACKENDS: 'docker,gvisor,process',
    COFFERDAM_SLOTS: '3',
  })
})
afterAll(() => stack.disposeAsync())

const run = (
  backend: string,
  program: Program,
  more: Partial<ExecutionRequestInput> = {},
): Promise<ExecutionResult> =>
  fleet.client.run({ tenant_id: 'acme', agent_id: 'a', backend, program, ...more }, { timeoutMs: 110_000 })
const python = (source: string): Program => ({ type: 'script', language: 'python', source })
const hostsOf = async ({ execution_id }: ExecutionResult): Promise<string[]> =>
  (await fleet.store.findExecution('acme', execution_id))?.audit[0]?.outbound_hosts ?? []

const BACKENDS = isLongTier() ? (['docker', 'gvisor', 'process'] as const) : (['docker', 'process'] as const)
for (const backend of BACKENDS)
  needs(backend === 'process' ? 'process-namespaces' : backend).describe(`on ${backend}`, () => {
    const reach = (url: string) =>
      python(
        `import urllib.request, urllib.error\ntry:\n    print(urllib.request.urlopen("${url}").read().decode())\n` +
          'except urllib.error.HTTPError as error:\n    print(error.code, error.read().decode())\nexcept OSError as error:\n    print("no way", error)',
      )

    it('reaches allowed hosts, refuses others by name, and records the reached hosts', async () => {
      const here = { network: { allow: [`${HOST}:${port}`] } }
      const result = await run(backend, reach(`http://${HOST}:${port}/`), here)
      expect(result).toMatchObject({ ok: true, stdout: 'hello from outside\n' })
      expect(await hostsOf(result)).toEqual([`${HOST}:${port}`])
      const redirected = await run(backend, reach(`http://${HOST}:${port}/away`), here)
      expect(redirected.stdout).toMatch(/^403 .*169\.254\.169\.254/)
      const elsewhere = await run(backend, reach('http://10.0.0.1/'), here)
      expect(elsewhere.stdout).toMatch(/^403 .*10\.0\.0\.1/)
      expect(await hostsOf(elsewhere)).toEqual([])
    })

    it('has no network unless it is requested, and a tenant without the right gets none', async () => {
      const calls = seen.length
      expect((await run(backend, reach(`http://${HOST}:${port}/`))).stdout).toMatch(/^no way/)
      expect(seen.length).toBe(calls)
      expect(
        await run(backend, reach('http://example.com/'), { tenant_id: 'closed', network: 'public' }),
      ).toMatchObject({
        ok: false,
        exit_status: 'provisioning',
        backend: null,
      })
    })

    it("lets Node's fetch use the same proxy", async () => {
      const here = { network: { allow: [`${HOST}:${port}`] } }
      const source = `fetch("http://${HOST}:${port}/").then((r) => r.text()).then(console.log)`
      expect(await run(backend, { type: 'script', language: 'javascript', source }, here)).toMatchObject({
        stdout: 'hello from outside\n',
      })
    })
  })

for (const backend of ['docker', 'process'] as const)
  (backend === 'process' ? needs('process-namespaces', 'pip') : needs('docker')).describe(
    `packages on ${backend}`,
    () => {
      // pip behaves the same on both backends, so the short tier tests only `process`.
      const inOnePlace = backend === 'docker' ? inLongTier : it
      const limits = { disk_mib: 200, memory_mib: 512, hard_timeout_ms: 90_000 }

      it('installs allowed packages in allowed versions, and runs tests with them', async () => {
        const session = { session: { key: `${backend}-project` }, limits }
        const installed = await run(
          backend,
          { type: 'install' },
          {
            ...session,
            files: [
              { path: 'requirements.txt', content: 'sums\n' },
              {
                path: 'test_sums.py',
                content:
                  'import unittest\nfrom sums import add\n\nclass Sums(unittest.TestCase):\n    def test_right(self):\n        self.assertEqual(add(1, 1), 2)\n    def test_wrong(self):\n        self.assertEqual(add(1, 1), 3)\n',
              },
            ],
          },
        )
        expect(installed.stderr).toBe('')
        expect(installed).toMatchObject({
          ok: true,
          install: { manager: 'pip', packages: [{ name: 'sums', version: '1.0' }], refused: [] },
        })
        const tested = await run(backend, { type: 'tests' }, session)
        expect(tested).toMatchObject({
          ok: false,
          ending: 'error',
          tests: { framework: 'unittest', total: 2, passed: 1, failed: 1, complete: true },
        })
        expect(tested.tests?.failures).toMatchObject(
          [{ file: 'test_sums.py', line: 8, message: /2 != 3/ }].map(({ file, line }) => ({ file, line })),
        )
      })

      it("lets a program install its tenant's packages if the request asks for that", async () => {
        const installs = (name: string): Program =>
          python(
            `import subprocess, sys\nsubprocess.run([sys.executable, "-m", "pip", "install", "-q", "${name}"], check=True)\n` +
              'subprocess.run([sys.executable, "-c", "import sums; print(sums.add(1, 1))"], check=True)',
          )
        const asked = { limits, network: { allow: ['packages.cofferdam.internal'] } }
        expect(await run(backend, installs('sums'), asked)).toMatchObject({ ok: true, stdout: '2\n' })
        const refused = await run(backend, installs('typosquat'), asked)
        expect(refused).toMatchObject({ ok: false, ending: 'error' })
        expect(refused.error_message).toContain('Refused were typosquat')
        const closed = await run(backend, installs('sums'), { limits })
        expect(closed.error_message).toContain('{"allow": ["packages.cofferdam.internal"]}')
      })

      inOnePlace('names the package that the tenant may not have', async () => {
        const refused = await run(
          backend,
          { type: 'install' },
          {
            limits,
            files: [{ path: 'requirements.txt', content: 'typosquat\n' }],
          },
        )
        expect(refused).toMatchObject({ ok: false, install: { refused: [{ name: 'typosquat' }] } })
        expect(`${refused.error_message} ${refused.stderr}`).toContain('typosquat')
      })

      inOnePlace('names the rule that excludes a version, and the index that was not reached', async () => {
        const refused = await run(
          backend,
          { type: 'install' },
          {
            limits,
            files: [
              {
                path: 'requirements.txt',
                content: '--extra-index-url https://index.example/simple/\nsums==2.0\n',
              },
            ],
          },
        )
        expect(refused).toMatchObject({ ok: false, ending: 'error', install: { packages: [], refused: [] } })
        expect(refused.error_message).toContain(
          "The tenant's rules left out versions of sums (allowed: sums==1.*).",
        )
        expect(refused.error_message).toContain(
          'Not reached were index.example:443 (this execution has no network).',
        )
      })

      it('refuses an install that no rule or mirror could serve, before anything runs', async () => {
        const npm = await run(
          backend,
          { type: 'install' },
          { limits, files: [{ path: 'package.json', content: '{}' }] },
        )
        expect(npm).toMatchObject({ ok: false, error_message: expect.stringMatching(/npm/) })
        expect(npm.usage).toBeNull()
      })
    },
  )
