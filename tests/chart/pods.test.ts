/** Pods of the chart: what they may do, and that our processes accept what they get. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { temporaryFolder } from '@cofferdam/embedded/testing'
import { beforeAll, expect, it } from 'vitest'
import { API_FIELDS, loadConfig as apiConfig } from '../../apps/api/src/config.ts'
import { DISPATCHER_FIELDS, loadConfig as dispatcherConfig } from '../../apps/dispatcher/src/config.ts'
import { loadConfig as workerConfig, WORKER_FIELDS } from '../../apps/worker/src/config.ts'
import { renderFlavours } from './flavours.ts'
import { configText, environment, SECRETS } from './pod-settings.ts'
import { renderChart } from './render-chart.ts'

const withHelm = needs('helm')
const APPS = {
  api: { fields: API_FIELDS, load: apiConfig },
  worker: { fields: WORKER_FIELDS, load: workerConfig },
  dispatcher: { fields: DISPATCHER_FIELDS, load: dispatcherConfig },
}
withHelm.describe('pods of every flavour', () => {
  const folder = temporaryFolder('chart')
  let flavours: Awaited<ReturnType<typeof renderFlavours>> = []
  beforeAll(async () => {
    flavours = await renderFlavours()
  })

  /** Every Deployment and Job with its pod and container. */
  const workloads = () =>
    flavours.flatMap(([title, objects]) =>
      objects
        .filter(({ kind }) => kind === 'Deployment' || kind === 'Job')
        .map((object) => {
          const pod = object['spec'].template.spec
          const [container] = pod.containers
          const app = container.args[0] as keyof typeof APPS | 'setup'
          return { title: `${title}: ${object.metadata.name}`, objects, object, pod, container, app }
        }),
    )
  const processes = () =>
    workloads().flatMap((one) => (one.app === 'setup' ? [] : [{ ...one, app: one.app }]))
  it('run as an ordinary user on a read-only root, with no capability, bounded memory and nothing of the node', () => {
    expect(workloads().length).toBeGreaterThan(30)
    for (const { title, pod, container } of workloads()) {
      expect(pod.containers, title).toHaveLength(1)
      expect(pod.securityContext, title).toMatchObject({
        runAsNonRoot: true,
        runAsUser: 10001,
        seccompProfile: { type: 'RuntimeDefault' },
      })
      expect(container.securityContext, title).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      })
      for (const field of ['hostNetwork', 'hostPID', 'hostIPC']) expect(pod[field], title).toBeUndefined()
      for (const volume of pod.volumes) expect(volume.hostPath, title).toBeUndefined()
      expect(container.resources.limits.memory, title).toBeDefined()
      const isMounted = (path: string) =>
        container.volumeMounts.some(({ mountPath }: { mountPath: string }) => mountPath === path)
      expect(isMounted('/tmp'), title).toBe(true)
    }
  })

  it('get no variables of services, because COFFERDAM_API_PORT would be an unknown setting', () => {
    expect(() => workerConfig({ ...SECRETS, COFFERDAM_API_PORT: 'tcp://10.0.0.1:7070' })).toThrow(
      /no such variable/,
    )
    for (const { title, pod } of workloads()) expect(pod.enableServiceLinks, title).toBe(false)
  })

  it('have a token only if they claim sandboxes or scale their pool', () => {
    const holders = workloads().filter(({ pod }) => pod.automountServiceAccountToken !== false)
    expect(holders.length).toBeGreaterThan(3)
    for (const { title, objects, container, pod } of holders) {
      const backends = environment(container)['COFFERDAM_BACKENDS']?.split(',') ?? []
      const scales = objects.some(({ metadata }) => metadata.name === 'cofferdam-spare-pods')
      expect(backends.includes('kubernetes') || scales, title).toBe(true)
      const bound = objects.filter(({ kind }) => kind === 'RoleBinding').flatMap(({ subjects }) => subjects)
      expect(bound, title).toContainEqual({
        kind: 'ServiceAccount',
        name: pod.serviceAccountName,
        namespace: 'cofferdam',
      })
    }
  })

  it('start: each process accepts its variables and its configuration file', () => {
    for (const one of processes()) {
      const env = environment(one.container)
      const text = configText(one.objects, one.pod)
      expect(env['COFFERDAM_CONFIG'] !== undefined, one.title).toBe(text !== undefined)
      if (text !== undefined) {
        const { mountPath } = one.container.volumeMounts.find(
          ({ name }: { name: string }) => name === 'config',
        )
        expect(env['COFFERDAM_CONFIG'], one.title).toBe(`${mountPath}/cofferdam.config.yaml`)
        env['COFFERDAM_CONFIG'] = join(folder, 'cofferdam.config.yaml')
        writeFileSync(env['COFFERDAM_CONFIG'], text)
      }
      expect(() => APPS[one.app].load(env), one.title).not.toThrow()
    }
  })

  it('have only variables of the table in docs/configuration.md, and each one that is required', () => {
    const page = readFileSync(join(import.meta.dirname, '../../docs/configuration.md'), 'utf8')
    const headings = { api: 'API', worker: 'Worker', dispatcher: 'Dispatcher' }
    for (const { title, container, app } of processes()) {
      const section = page.split(`\n## ${headings[app]}\n`)[1]?.split('\n## ')[0] ?? ''
      const rows = [...section.matchAll(/^\| `([A-Z_]+)` \| (.*?) \|/gm)]
      // docs/configuration.md does not list REDIS_URL_<n>: only the chart's pods have it, because their
      // COFFERDAM_CELLS refers to it.
      const names = Object.keys(environment(container)).filter((name) => !/^REDIS_URL_\d+$/.test(name))
      const known = rows.map(([, name]) => name)
      expect(
        names.filter((name) => !known.includes(name)),
        title,
      ).toEqual([])
      const required = rows.filter(([, , unset]) => unset === 'required').map(([, name]) => name)
      expect(required.length, title).toBeGreaterThan(0)
      expect(names, title).toEqual(expect.arrayContaining(required))
    }
  })

  it('serve metrics and probes on the port that probes, services and policies name', () => {
    for (const { title, container } of processes()) {
      const ports = Object.fromEntries(
        container.ports.map((port: { name: string; containerPort: number }) => [
          port.name,
          port.containerPort,
        ]),
      )
      const env = environment(container)
      expect(env['COFFERDAM_METRICS_PORT'], title).toBe(String(ports['metrics']))
      if (ports['http'] !== undefined) expect(env['COFFERDAM_PORT'], title).toBe(String(ports['http']))
      expect(container.startupProbe.httpGet, title).toEqual({ path: '/healthz', port: 'metrics' })
      expect(container.readinessProbe.httpGet, title).toEqual({ path: '/readyz', port: 'metrics' })
      // A restart does not bring Redis back, so liveness must not depend on it.
      expect(container.livenessProbe.httpGet, title).toEqual({ path: '/healthz', port: 'metrics' })
    }
  })

  it('have longer to stop than their drain can take', () => {
    // While Redis is away, each step around a worker's drain may take 10 s (libs/queue/src/consumer.ts).
    const around = { api: 10, worker: 60, dispatcher: 60 }
    for (const { title, pod, container, app } of processes()) {
      const drainSeconds = Number(environment(container)['COFFERDAM_DRAIN_MS']) / 1000
      const pause = container.lifecycle?.preStop.sleep.seconds ?? 0
      const least = drainSeconds + pause + around[app]
      expect(pod.terminationGracePeriodSeconds, title).toBeGreaterThan(least)
    }
  })

  it('of a worker leave memory for the worker itself, unless other nodes run its programs', () => {
    for (const { title, container, app } of processes()) {
      const env = environment(container)
      if (app !== 'worker' || !env['COFFERDAM_BACKENDS']?.includes('process')) continue
      const limit = String(container.resources.limits.memory)
      const mib = Number.parseInt(limit, 10) * (limit.endsWith('Gi') ? 1024 : 1)
      expect(mib - Number(env['COFFERDAM_MEMORY_BUDGET_MIB']), title).toBeGreaterThanOrEqual(256)
    }
  })

  it('of each kind of worker have their own settings', () => {
    const named = (name: string) => {
      const found = workloads().find(({ title }) => title === `everything on: cofferdam-worker-${name}`)
      if (found === undefined) throw new Error(`there is no kind ${name}`)
      return { ...found, env: environment(found.container) }
    }
    const pods = named('pods')
    expect(pods.env).toMatchObject({
      COFFERDAM_BACKENDS: 'kubernetes',
      COFFERDAM_SLOTS: '20',
      COFFERDAM_LANES: 'interactive,routine',
      COFFERDAM_TRACE_SAMPLE_RATIO: '0.1',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://jaeger-collector.monitoring:4318',
    })
    expect(pods.container.volumeMounts).toContainEqual({
      name: 'secret-0',
      mountPath: '/etc/cofferdam-sessions',
      readOnly: true,
    })
    const vendors = named('vendors')
    expect(vendors.env).toMatchObject({ COFFERDAM_LANES: 'routine', COFFERDAM_DRAIN_MS: '600000' })
    expect(configText(vendors.objects, vendors.pod)).toContain('api_key_file: /etc/e2b/key')
    expect(vendors.pod).toMatchObject({
      nodeSelector: { pool: 'vendors' },
      runtimeClassName: 'gvisor',
      serviceAccountName: 'cofferdam',
    })
    expect(vendors.container.image).toMatch(/\/fleet@sha256:0{64}$/)
    expect(vendors.container.envFrom).toEqual([{ secretRef: { name: 'object-store' } }])
  })
})

withHelm.it('a change of the configuration restarts the pods that read it, and no others', async () => {
  const checksums = async (values: object): Promise<Record<string, unknown>> =>
    Object.fromEntries(
      (await renderChart({ values }))
        .filter(({ kind }) => kind === 'Deployment')
        .map(({ metadata, spec }) => [metadata.name, spec.template.metadata.annotations['checksum/config']]),
    )
  const [before, after] = await Promise.all([
    checksums({}),
    checksums({ workerDefaults: { config: { warm: {} } } }),
  ])
  expect(after['cofferdam-api']).toBe(before['cofferdam-api'])
  expect(after['cofferdam-worker-process']).not.toBe(before['cofferdam-worker-process'])
})
