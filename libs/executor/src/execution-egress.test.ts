/** What an execution may reach, through the executor: a real egress, a real origin, a backend that plays the program. */
import { once } from 'node:events'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { duplexPair } from 'node:stream'
import { createEgress, egressConfigSchema } from '@cofferdam/egress'
import type { RunIo } from '@cofferdam/contract'
import { expect, it } from 'vitest'
import { attemptOf, harness, tenantOf } from '../test/attempts.ts'
import { exitOf, scriptedBackend } from '../test/scripted-backend.ts'

/** Asks the proxy behind `onConnection` for `url`, as a program with HTTP_PROXY would. */
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

it('lets a program reach what was allowed, and records it', async () => {
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

it('gives a program without a network no channel at all', async () => {
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

it('refuses more than the tenant may reach, before a sandbox is opened', async () => {
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

it('refuses a network on a worker that has no egress', async () => {
  const { executor } = harness([scriptedBackend()])
  expect(await executor.execute(attemptOf({ network: 'public' }))).toMatchObject({
    ending: 'provisioning',
    reason: 'capability_missing',
  })
})
