/** Conformance of `agentcore` against the double, whose sessions really run what they are given. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testRedis } from '@cofferdam/embedded/testing'
import { createSessionRegistry } from '@cofferdam/sessions'
import { connectRedis } from '@cofferdam/queue'
import { afterAll } from 'vitest'
import {
  EXAMPLE_SECRETS,
  startAgentcoreDouble,
} from '../../../../infra/doubles/agentcore/agentcore-double.ts'
import { NODE } from '../../../../infra/doubles/jail.ts'
import { exerciseBackend } from '../../conformance/index.ts'
import { createAgentcoreBackend } from './index.ts'

const folder = mkdtempSync(join(tmpdir(), 'cofferdam-agentcore-'))
const keys = join(folder, 'credentials')
writeFileSync(
  keys,
  `[default]\naws_access_key_id = ${EXAMPLE_SECRETS.accessKeyId}\naws_secret_access_key = ${EXAMPLE_SECRETS.secretAccessKey}\n`,
)
const double = await startAgentcoreDouble({ ratePerSecond: 1000 })
double.previews = true
const server = await testRedis()
const redis = connectRedis(server.url, 'worker')
afterAll(async () => {
  await double[Symbol.asyncDispose]()
  redis.disconnect()
  await server.stop()
  rmSync(folder, { recursive: true })
})

const factory = (): ReturnType<typeof createAgentcoreBackend> =>
  createAgentcoreBackend(
    {
      region: 'eu-central-1',
      endpoint: double.origin,
      credentials_file: keys,
      interpreters: { 'default-public': 'public-0123456789', 'internal-only': 'internal-0123456789' },
      calls_per_second: 1000,
      node: NODE,
    },
    { sessions: createSessionRegistry({ redis }) },
  )

await exerciseBackend('agentcore', factory, {
  leftovers: async (owner) =>
    double.sessions.running().flatMap(({ id, name }) => (name?.includes(owner) === true ? [id] : [])),
  destroyUnderneath: async (sandbox) =>
    await double.sessions.byId(String(sandbox.ref.handle['session']))?.end('stopped'),
  visibleOnHost: true,
})
