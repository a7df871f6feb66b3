/** Conformance of `agentcore` against the double, whose sessions really run the code they receive. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testRedis } from '@cofferdam/embedded/testing'
import { createSessionRegistry } from '@cofferdam/sessions'
import { connectRedis } from '@cofferdam/queue'
import { afterAll } from 'vitest'
import { startAgentcoreDouble } from '../double/agentcore-double.ts'
import { VENDOR_THEMES, exerciseStarted, type Exercised } from '@cofferdam/sandbox/conformance'
import { KEYS, settingsFor, writeKeys } from '../test/at-double.ts'
import { createAgentcoreBackend } from './index.ts'

async function atDouble(): Promise<Exercised> {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-agentcore-'))
  const keys = join(folder, 'keys')
  writeKeys(keys)
  const double = await startAgentcoreDouble({ ratePerSecond: 1000, secrets: KEYS })
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
    createAgentcoreBackend(settingsFor(double, keys), { sessions: createSessionRegistry({ redis }) })

  return [
    factory,
    {
      shortThemes: VENDOR_THEMES,
      surroundings: 'none',
      leftovers: async (owner) =>
        double.sessions.running().flatMap(({ id, name }) => (name?.includes(owner) === true ? [id] : [])),
      destroyUnderneath: async (sandbox) =>
        await double.sessions.byId(String(sandbox.ref.handle['session']))?.end('stopped'),
      visibleOnHost: true,
      vendorInterpreter: true,
    },
  ]
}

await exerciseStarted('agentcore', ['bwrap'], atDouble)
