/**
 * Installs the chart with kubectl into the Kubernetes double. A worker then gets the settings that the chart
 * gives its pods. It claims a sandbox there and runs a program in it.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startKubernetesDouble, type KubernetesDouble } from '@cofferdam/backend-kubernetes/double'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { parse } from 'yaml'
import { startFleet, type Fleet } from '../fleet.ts'
import { only, renderChart, type Rendered } from './render-chart.ts'

const run = promisify(execFile)

needs('helm', 'kubectl', 'bwrap').describe('the flavour GKE on the double of Kubernetes', () => {
  let folder: string
  let cluster: KubernetesDouble
  let fleet: Fleet
  let objects: Rendered[]

  const kubectl = async (...args: string[]): Promise<string> => {
    const own = ['--kubeconfig', join(folder, 'kubeconfig'), '--cache-dir', join(folder, 'cache')]
    return (await run('kubectl', [...own, ...args], { maxBuffer: 16 * 1024 * 1024 })).stdout
  }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cofferdam-installed-'))
    ;[cluster, fleet] = await Promise.all([startKubernetesDouble({ replicas: 0 }), startFleet()])
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'double', cluster: { server: cluster.origin } }],
      users: [],
      contexts: [{ name: 'double', context: { cluster: 'double', user: '' } }],
      'current-context': 'double',
    }
    await writeFile(join(folder, 'kubeconfig'), JSON.stringify(config))
    objects = (
      await renderChart({
        files: ['values-gke.yaml'],
        values: {
          // A fixed number of sandboxes, because the double has no KEDA to scale them.
          sandboxes: { scaledBy: 'none', replicas: 2 },
          extraObjects: null,
        },
      })
    )
      // In the double every namespace exists.
      .filter(({ kind }) => kind !== 'Namespace')
    await fleet.createTenant('acme')
  })
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]()
    await cluster?.[Symbol.asyncDispose]()
    await rm(folder, { recursive: true })
  })

  it('is applied by kubectl: every object is created, and none changes when it is applied again', async () => {
    const apply = async (items: readonly Rendered[]): Promise<string[]> => {
      const file = join(folder, 'fleet.json')
      await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }))
      return (await kubectl('apply', '-f', file)).trim().split('\n')
    }
    const first = await apply(objects)
    // The double has a pool of that name from the start, so kubectl does not create it.
    expect(first.filter((line) => !line.endsWith(' created'))).toEqual([
      'sandboxwarmpool.extensions.agents.x-k8s.io/cofferdam configured',
    ])
    expect(first).toHaveLength(objects.length)
    // kubectl patches the selector of a PodDisruptionBudget on every apply, but the double refuses to change
    // objects of this kind.
    const again = await apply(objects.filter(({ kind }) => kind !== 'PodDisruptionBudget'))
    expect(again.filter((line) => !line.endsWith(' unchanged'))).toEqual([])
    const names = await kubectl('get', 'deployments', '--namespace', 'cofferdam', '-o', 'name')
    expect(names.trim().split('\n').toSorted()).toEqual([
      'deployment.apps/cofferdam-api',
      'deployment.apps/cofferdam-worker-kubernetes',
    ])
  })

  it('makes the warm pods of its pool', async () => {
    await expect
      .poll(() => cluster.running().filter(({ claim }) => claim === null).length, { timeout: 120_000 })
      .toBe(2)
  })

  it('serves a claim: a worker with the variables and the file of its pod runs a program there', async () => {
    const { containers } = only(objects, 'Deployment', 'cofferdam-worker-kubernetes')['spec'].template.spec
    const settings = parse(
      only(objects, 'ConfigMap', 'cofferdam-worker-kubernetes')['data']['cofferdam.config.yaml'],
    ) as { backends: { kubernetes: object } }
    // Only the address differs: the double needs no token.
    Object.assign(settings.backends.kubernetes, { api_server: cluster.origin, token_file: null })
    const file = join(folder, 'cofferdam.config.yaml')
    await writeFile(file, JSON.stringify(settings))
    const given = (containers[0].env as { name: string; value?: string }[]).flatMap(({ name, value }) =>
      value === undefined ? [] : [[name, value] as const],
    )
    const worker = await fleet.startWorker({
      ...Object.fromEntries(given),
      // These replace settings of the pod: the test's own folder and file, and a free port on loopback only.
      COFFERDAM_DATA_DIR: fleet.dataDir,
      COFFERDAM_CONFIG: file,
      COFFERDAM_METRICS_HOST: '127.0.0.1',
      COFFERDAM_METRICS_PORT: '0',
    })
    const result = await fleet.client.run({
      tenant_id: 'acme',
      agent_id: 'a',
      backend: 'kubernetes',
      program: { type: 'script', language: 'python', source: 'print(6 * 7)' },
    })
    expect(result, worker.log()).toMatchObject({ ok: true, stdout: '42\n' })
    // The chart derives the isolation from the runtime class of the sandboxes' pods.
    expect(result).toMatchObject({ backend: 'kubernetes', isolation: 'gvisor' })
    expect(await worker.stop()).toBe(0)
  })
})
