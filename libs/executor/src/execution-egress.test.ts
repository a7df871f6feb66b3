/** What an execution may reach: real egress, real origin, and a backend that plays the program. */
import { once } from 'node:events'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { duplexPair } from 'node:stream'
import { createEgress, egressConfigSchema } from '@cofferdam/egress'
import type { RunIo } from '@cofferdam/contract'
import { expect, it } from 'vitest'
import { attemptOf, harness, tenantOf } from '../test/attempts.ts'
import { exitOf, scriptedBackend } from '../test/scripted-backend.ts'

/** Requests `url` from the proxy behind `onConnection`, as a program with HTTP_PROXY would. */
async function fetchThrough(io: RunIo, url: string): Promise<{ status: number; body: string }> {
  const [program, worker] = duplexPair()
  io.onConnection?.(worker)
  const asked = httpRequest({
    createConnection: () => program,
    path: url,
    headers: { host: new URL(url).host, connection: 'close' },
  })
  asked.end()
  const [answer] = await once(asked, 'response')
  let body = ''
  for await (const chunk of answer) body += String(chunk)
  return { status: answer.statusCode, body }
}

it('a program reaches an allowed host, which is recorded', async () => {
  const origin = createServer((_, answer) => answer.end('hello')).listen(0, '127.0.0.1')
  await once(origin, 'listening')
  const { port } = origin.address() as AddressInfo
  await using egress = createEgress({
    config: egressConfigSchema.parse({ private_allow: [`127.0.0.0/8:${port}`] }),
  })
  const seen: { status: number; body: string }[] = []
  const backend = scriptedBackend({
    run: async ({ io }) => {
      seen.push(await fetchThrough(io, `http://127.0.0.1:${port}/`))
      seen.push(await fetchThrough(io, 'http://169.254.169.254/latest/meta-data/'))
      return exitOf()
    },
  })
  const { executor } = harness([backend], { egress })
  const outcome = await executor.execute(attemptOf({ network: { allow: [`127.0.0.1:${port}`] } }))
  origin.close()
  expect(seen).toMatchObject([{ status: 200, body: 'hello' }, { status: 403 }])
  expect(outcome).toMatchObject({ ending: 'ok', outboundHosts: [`127.0.0.1:${port}`] })
})

it('a program without a network gets no channel', async () => {
  await using egress = createEgress({ config: egressConfigSchema.parse({}) })
  let io: RunIo | undefined
  const backend = scriptedBackend({
    run: async (control) => {
      io = control.io
      return exitOf()
    },
  })
  await harness([backend], { egress }).executor.execute(attemptOf({}))
  expect(io).toBeDefined()
  expect(io).not.toHaveProperty('onConnection')
})

it('more than the tenant may reach is refused before a sandbox is opened', async () => {
  await using egress = createEgress({ config: egressConfigSchema.parse({}) })
  const backend = scriptedBackend()
  const { executor } = harness([backend], { egress })
  const tenant = tenantOf({ network: { allow: ['*.example.com'] } })
  const outcome = await executor.execute(
    attemptOf({ network: { allow: ['api.example.com', 'evil.test'] } }, { tenant }),
  )
  expect(outcome).toMatchObject({ ending: 'policy_denied', reason: 'network_denied', began: false })
  expect(outcome.failureReason).toContain('evil.test')
  expect(backend.specs).toEqual([])
})

it('a network is refused on a worker without egress', async () => {
  const { executor } = harness([scriptedBackend()])
  expect(await executor.execute(attemptOf({ network: 'public' }))).toMatchObject({
    ending: 'provisioning',
    reason: 'capability_missing',
  })
})

const PACKAGES = { allow: ['packages.cofferdam.internal'] }
const withMirror = () =>
  createEgress({
    config: egressConfigSchema.parse({ package_mirrors: { pypi: 'http://127.0.0.1:9/simple' } }),
  })
const rules = { pypi: ['sums==1.*'], npm: [] }

it('package managers use the package proxy on request, even without a network', async () => {
  await using egress = withMirror()
  let answer: { status: number; body: string } | undefined
  const backend = scriptedBackend({
    run: async ({ io }) => {
      answer = await fetchThrough(io, 'http://packages.cofferdam.internal/pypi/simple/evil/')
      return exitOf({ exitCode: 1 })
    },
  })
  const { executor } = harness([backend], { egress })
  const tenant = tenantOf({ network: 'none', packages: rules })
  const outcome = await executor.execute(attemptOf({ network: PACKAGES }, { tenant }))
  expect(backend.specs).toMatchObject([
    { network: PACKAGES, env: { PIP_INDEX_URL: 'http://packages.cofferdam.internal/pypi/simple/' } },
  ])
  expect(answer?.status).toBe(403)
  expect(outcome).toMatchObject({ ending: 'error', exitCode: 1 })
  expect(outcome.failureReason).toContain('Refused were evil')
})

it("package managers use it with network public too, for registries of the tenant's rules", async () => {
  await using egress = withMirror()
  const backend = scriptedBackend()
  const { executor } = harness([backend], { egress })
  for (const packages of [rules, { pypi: [], npm: [] }])
    await executor.execute(attemptOf({ network: 'public' }, { tenant: tenantOf({ packages }) }))
  const names = backend.specs.map(({ env }) =>
    ['PIP_INDEX_URL', 'npm_config_registry'].filter((name) => name in env),
  )
  expect(names).toEqual([['PIP_INDEX_URL'], []])
})

it("packages are refused if the tenant's rules allow none, with advice for the operator", async () => {
  await using egress = withMirror()
  const backend = scriptedBackend()
  const { executor } = harness([backend], { egress })
  const outcome = await executor.execute(attemptOf({ network: PACKAGES }))
  expect(outcome).toMatchObject({ ending: 'policy_denied', reason: 'packages_not_allowed', began: false })
  expect(outcome.failureReason).toContain('packages.pypi')
  expect(backend.specs).toEqual([])
})
