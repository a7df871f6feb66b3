/** Conformance of `e2b` against the double, whose sandboxes really run their programs. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { startE2bDouble } from '../double/e2b-double.ts'
import { NODE } from '@cofferdam/backend-remote/double'
import { VENDOR_THEMES, exerciseStarted, type Exercised } from '@cofferdam/sandbox/conformance'
import { redisSessions } from '@cofferdam/backend-remote/testing'
import { createE2bBackend } from './index.ts'

async function atDouble(): Promise<Exercised> {
  const sessions = await redisSessions()
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-e2b-'))
  const double = await startE2bDouble()
  writeFileSync(join(folder, 'key'), double.apiKey)
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
    await sessions[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true })
  })

  const factory = (): ReturnType<typeof createE2bBackend> =>
    createE2bBackend(
      {
        api_key_file: join(folder, 'key'),
        api_url: double.origin,
        sandbox_url: double.origin,
        node: NODE,
        languages: ['python', 'javascript', 'typescript', 'bash'],
      },
      { sessions },
    )

  return [
    factory,
    {
      shortThemes: VENDOR_THEMES,
      surroundings: 'agent',
      leftovers: async (owner) =>
        double.running().flatMap(({ id, metadata }) => (metadata['cofferdam_owner'] === owner ? [id] : [])),
      destroyUnderneath: (sandbox) => double.end(String(sandbox.ref.handle['sandbox'])),
      visibleOnHost: true,
    },
  ]
}

await exerciseStarted('e2b', ['bwrap'], atDouble)
