/** Conformance of `kubernetes` in foreign images, where their own runtime starts our agent. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Backend } from '@cofferdam/contract'
import { afterAll } from 'vitest'
import { startKubernetesDouble } from '../double/kubernetes-double.ts'
import { NODE } from '@cofferdam/backend-remote/double'
import { exerciseStarted, type Exercised, type ExerciseOptions } from '@cofferdam/sandbox/conformance'
import { createKubernetesBackend } from './index.ts'

async function atDouble(runtime: 'sandboxd' | 'python-runtime-sandbox'): Promise<Exercised> {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-foreign-'))
  const token_file = join(folder, 'token')
  writeFileSync(token_file, 'cofferdam-double\n')
  const foreign = { root: '/home/user', python: '/usr/bin/python3', node: NODE, token_file }
  const double = await startKubernetesDouble({ runtime })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true })
  })
  const factory = (): Backend =>
    createKubernetesBackend(
      {
        api_server: double.origin,
        token_file: null,
        runtime,
        foreign: { ...foreign, languages: ['python', 'javascript', 'typescript', 'bash'] },
      },
      {},
      `kubernetes with ${runtime}`,
    )
  const options: ExerciseOptions = {
    surroundings: 'agent',
    leftovers: async (owner) =>
      double.claims().flatMap(({ name, labels }) => (labels['cofferdam.dev/owner'] === owner ? [name] : [])),
    destroyUnderneath: (sandbox) => double.killPod(String(sandbox.ref.handle['claim'])),
    visibleOnHost: true,
  }
  return [factory, options]
}

for (const runtime of ['sandboxd', 'python-runtime-sandbox'] as const)
  await exerciseStarted(`kubernetes with ${runtime}`, ['bwrap'], () => atDouble(runtime))
