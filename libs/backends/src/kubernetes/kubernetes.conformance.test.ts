/** Conformance of `kubernetes` against the double, whose pods really run what they are given. */
import { afterAll } from 'vitest'
import { startKubernetesDouble } from '../../../../infra/doubles/kubernetes/kubernetes-double.ts'
import { exerciseBackend } from '../../conformance/index.ts'
import { createKubernetesBackend } from './index.ts'

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
