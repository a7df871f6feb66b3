/** Each flavour of the chart, and each of its switches, as values of Helm. */
import { renderChart, type Rendered, type RenderOptions } from './render-chart.ts'

const claiming = {
  name: 'pods',
  backends: ['kubernetes'],
  slots: 20,
  memoryBudgetMib: 10_240,
  replicas: 1,
  resources: { requests: { cpu: 1, memory: '1Gi' }, limits: { memory: '1Gi' } },
}
const dispatcher = {
  enabled: true,
  settings: {
    environments: [
      { id: 'env_1', tenant_id: 'acme', key_file: '/etc/cofferdam-environment/key', backend: 'kubernetes' },
    ],
  },
}

/** Titles and options of `renderChart`. */
export const FLAVOURS: Readonly<Record<string, RenderOptions>> = {
  'the defaults': {},
  'the flavour plain': { files: ['values-plain.yaml'] },
  'the flavour GKE': { files: ['values-gke.yaml'] },
  'everything on': {
    files: ['values-plain.yaml', 'values-gke.yaml'],
    values: {
      workers: [
        { ...claiming, secretFiles: [{ secret: 'cofferdam-sessions', path: '/etc/cofferdam-sessions' }] },
        {
          ...claiming,
          name: 'vendors',
          backends: ['e2b', 'process'],
          memoryBudgetMib: 512,
          lanes: ['routine'],
          drainSeconds: 600,
          autoscaling: { kind: 'hpa' },
          config: { backends: { e2b: { api_key_file: '/etc/e2b/key' } } },
          nodeSelector: { pool: 'vendors' },
          tolerations: [{ key: 'vendors', operator: 'Exists', effect: 'NoSchedule' }],
          runtimeClassName: 'gvisor',
        },
      ],
      config: { warm: {} },
      extraEnv: { COFFERDAM_TRACE_SAMPLE_RATIO: '0.1' },
      extraEnvFrom: [{ secretRef: { name: 'object-store' } }],
      otlpEndpoint: 'http://jaeger-collector.monitoring:4318',
      jaegerUrl: 'https://jaeger.example.com',
      dispatcher,
      sandboxes: { scaledBy: 'dispatcher' },
      serviceAccounts: { annotations: { 'iam.gke.io/gcp-service-account': 'cofferdam@project' } },
      image: { digest: `sha256:${'0'.repeat(64)}`, pullSecrets: [{ name: 'registry' }] },
    },
  },
  'everything off': {
    values: {
      workers: [],
      setup: { enabled: false },
      persistence: { enabled: false },
      podDisruptionBudgets: { enabled: false },
      networkPolicies: { enabled: false },
    },
  },
  'a Secret of the chart': {
    values: { secret: { create: true, values: { REDIS_URL: 'redis://r', DATABASE_URL: 'postgres://p' } } },
  },
  'an external secret': {
    values: { secret: { external: { enabled: true, store: { name: 'vault' } } } },
  },
  'three cells': {
    values: {
      cells: [1, 2],
      admissionRedis: { enabled: true },
      config: { cells: { tenants: { acme: 1, globex: 2 }, others: 0 } },
      workers: [
        { ...claiming, name: 'process', backends: ['process'], memoryBudgetMib: 512 },
        { ...claiming, name: 'vendors', backends: ['e2b'], cells: [2, 0], autoscaling: { kind: 'keda' } },
      ],
      dispatcher: { ...dispatcher, cell: 1 },
      secret: {
        create: true,
        values: {
          REDIS_URL: 'redis://r',
          REDIS_URL_1: 'redis://r1',
          REDIS_URL_2: 'redis://r2',
          COFFERDAM_ADMISSION_REDIS_URL: 'redis://caps',
          DATABASE_URL: 'postgres://p',
        },
      },
    },
  },
  'a claim that exists': { values: { persistence: { existingClaim: 'data' } } },
  'a load balancer without an ingress': {
    values: { api: { service: { type: 'LoadBalancer', port: 80 }, ingress: { enabled: false } } },
  },
  ...Object.fromEntries(
    ['claims', 'dispatcher-keda', 'dispatcher-hpa'].map((scaledBy) => [
      `a pool that is scaled by ${scaledBy}`,
      { values: { workers: [claiming], dispatcher, sandboxes: { enabled: true, scaledBy } } },
    ]),
  ),
}

let rendered: Promise<[title: string, objects: Rendered[]][]> | undefined

/** All of them, rendered once for all files that ask in the same process. */
export const renderFlavours = (): Promise<[title: string, objects: Rendered[]][]> =>
  (rendered ??= Promise.all(
    Object.entries(FLAVOURS).map(async ([title, options]) => [title, await renderChart(options)]),
  ))
