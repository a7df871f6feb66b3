/**
 * Conformance of `kubernetes` against the double, whose pods really run what they are given; and against a cluster where
 * COFFERDAM_KUBERNETES names a file with the backend's settings as JSON (README.md).
 */
import { readFileSync } from 'node:fs'
import { afterAll } from 'vitest'
import { startKubernetesDouble } from '../../../../infra/doubles/kubernetes/kubernetes-double.ts'
import { exerciseBackend } from '../../conformance/index.ts'
import { createClaims } from './claims.ts'
import { kubernetesConfigSchema } from './config.ts'
import { createKubernetesBackend } from './index.ts'
import { createKubeApi } from './kube-api.ts'

const double = await startKubernetesDouble({ replicas: 2 })
afterAll(() => double[Symbol.asyncDispose]())

await exerciseBackend(
  'kubernetes',
  () => createKubernetesBackend({ api_server: double.origin, token_file: null }),
  {
    leftovers: async (owner) =>
      double.claims().flatMap(({ name, labels }) => (labels['cofferdam.dev/owner'] === owner ? [name] : [])),
    destroyUnderneath: (sandbox) => double.killPod(String(sandbox.ref.handle['claim'])),
    visibleOnHost: true,
  },
)

const cluster = process.env['COFFERDAM_KUBERNETES']
if (cluster !== undefined) {
  const settings = kubernetesConfigSchema.parse(JSON.parse(readFileSync(cluster, 'utf8')))
  const claims = createClaims(createKubeApi(settings), settings)
  await exerciseBackend('kubernetes', () => createKubernetesBackend(settings), {
    leftovers: async (owner) => (await claims.list(owner)).map(({ claim }) => claim),
    destroyUnderneath: async (sandbox) => void (await claims.release(String(sandbox.ref.handle['claim']))),
    visibleOnHost: false,
  })
}
