/**
 * Conformance of `kubernetes` with the double, whose pods really run their programs. Also with a cluster, if
 * COFFERDAM_KUBECONFIG names a kubeconfig or COFFERDAM_KUBERNETES a file with settings as JSON (README.md).
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Backend } from '@cofferdam/contract'
import { afterAll } from 'vitest'
import { startKubernetesDouble } from '../double/kubernetes-double.ts'
import {
  VENDOR_THEMES,
  exerciseBackend,
  exerciseStarted,
  type Exercised,
  type ExerciseOptions,
} from '@cofferdam/sandbox/conformance'
import { startKubectlProxy } from '../test/kubectl-proxy.ts'
import { redisSessions } from '@cofferdam/backend-remote/testing'
import { createClaims } from './claims.ts'
import { kubernetesConfigSchema } from './config.ts'
import { createKubernetesBackend } from './index.ts'
import { createKubeApi } from './kube-api.ts'

async function atDouble(): Promise<Exercised> {
  const double = await startKubernetesDouble({ replicas: 2 })
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-kubernetes-'))
  const session_secret_file = join(folder, 'secret')
  writeFileSync(session_secret_file, 'a-secret-of-the-fleet-that-is-long-enough')
  // With this registry and the secret, sessions belong to the fleet. Executions with reuse scope `tenant`
  // test a worker's own cells.
  const sessions = await redisSessions()
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
    await sessions[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true })
  })

  const factory = (): Backend =>
    createKubernetesBackend(
      { api_server: double.origin, token_file: null, session_secret_file },
      { sessions },
    )
  const options: ExerciseOptions = {
    shortThemes: VENDOR_THEMES,
    surroundings: 'agent',
    leftovers: async (owner) =>
      double.claims().flatMap(({ name, labels }) => (labels['cofferdam.dev/owner'] === owner ? [name] : [])),
    destroyUnderneath: (sandbox) => double.killPod(String(sandbox.ref.handle['claim'])),
    visibleOnHost: true,
  }
  return [factory, options]
}

await exerciseStarted('kubernetes', ['bwrap'], atDouble)

const { COFFERDAM_KUBECONFIG: kubeconfig, COFFERDAM_KUBERNETES: file } = process.env
if (kubeconfig !== undefined || file !== undefined) {
  const given = file === undefined ? {} : (JSON.parse(readFileSync(file, 'utf8')) as object)
  const proxy = kubeconfig === undefined ? null : await startKubectlProxy(kubeconfig)
  afterAll(async () => await proxy?.[Symbol.asyncDispose]())
  const reached = proxy === null ? {} : { api_server: proxy.origin, token_file: null }
  const settings = kubernetesConfigSchema.parse({ ...given, ...reached })
  const claims = createClaims(createKubeApi(settings), settings)
  await exerciseBackend('kubernetes', () => createKubernetesBackend(settings), {
    leftovers: async (owner) => (await claims.list(owner)).map(({ claim }) => claim),
    destroyUnderneath: async (sandbox) => void (await claims.release(String(sandbox.ref.handle['claim']))),
    visibleOnHost: false,
  })
}
