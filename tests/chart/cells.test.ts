/** A release of several cells: who gets which Redis, and that all processes agree on where a tenant lives. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { temporaryFolder } from '@cofferdam/embedded/testing'
import { beforeAll, expect, it } from 'vitest'
import { loadConfig as apiConfig } from '../../apps/api/src/config.ts'
import { loadConfig as dispatcherConfig } from '../../apps/dispatcher/src/config.ts'
import { loadConfig as workerConfig } from '../../apps/worker/src/config.ts'
import { FLAVOURS } from './flavours.ts'
import { configText, environment, SECRETS } from './pod-settings.ts'
import { only, renderChart, type Rendered } from './render-chart.ts'

const withHelm = needs('helm')

const KIND = {
  name: 'process',
  backends: ['process'],
  slots: 1,
  memoryBudgetMib: 64,
  replicas: 1,
  resources: { requests: {}, limits: { memory: '1Gi' } },
}

withHelm.describe('a release of three cells', () => {
  const folder = temporaryFolder('chart-cells')
  let objects: Rendered[] = []
  beforeAll(async () => {
    objects = await renderChart(FLAVOURS['three cells'])
  })

  const podOf = (name: string): Rendered => only(objects, 'Deployment', name)['spec'].template.spec
  /** The pod's variables, of which COFFERDAM_CONFIG names a file with the text of its ConfigMap. */
  const settingsOf = (name: string): Record<string, string> => {
    const pod = podOf(name)
    const file = join(folder, `${name}.yaml`)
    writeFileSync(file, configText(objects, pod) ?? '')
    return { ...environment(pod['containers'][0]), COFFERDAM_CONFIG: file }
  }
  const workers = () =>
    objects.flatMap(({ kind, metadata: { name } }) =>
      kind === 'Deployment' && name.startsWith('cofferdam-worker-') ? [name] : [],
    )

  it('has workers of each kind in every cell of the kind', () => {
    expect(workers().toSorted()).toEqual([
      'cofferdam-worker-process',
      'cofferdam-worker-process-cell-1',
      'cofferdam-worker-process-cell-2',
      'cofferdam-worker-vendors',
      'cofferdam-worker-vendors-cell-2',
    ])
  })

  it('gives each worker the number of its cell and the Redis of that cell', () => {
    for (const name of workers()) {
      const cell = Number(/-cell-(\d+)$/.exec(name)?.[1] ?? 0)
      const url = SECRETS[cell === 0 ? 'REDIS_URL' : `REDIS_URL_${cell}`]
      expect(workerConfig(settingsOf(name)), name).toMatchObject({ cell, redisUrl: url })
    }
  })

  it('gives the API the Redis of all cells, and the dispatcher that of its own', () => {
    expect(apiConfig(settingsOf('cofferdam-api'))).toMatchObject({
      cell: 0,
      redisUrl: SECRETS['REDIS_URL'],
      cells: [
        [1, SECRETS['REDIS_URL_1']],
        [2, SECRETS['REDIS_URL_2']],
      ],
    })
    expect(dispatcherConfig(settingsOf('cofferdam-dispatcher'))).toMatchObject({
      cell: 1,
      redisUrl: SECRETS['REDIS_URL_1'],
    })
  })

  it('places each tenant in the same cell for the API and all workers, with caps on one Redis', () => {
    const loaded = [
      apiConfig(settingsOf('cofferdam-api')),
      ...workers().map((name) => workerConfig(settingsOf(name))),
    ]
    expect(loaded).toHaveLength(6)
    for (const { placement, admissionRedisUrl } of loaded) {
      expect(placement).toEqual({ tenants: { acme: 1, globex: 2 }, others: 0 })
      expect(admissionRedisUrl).toBe(SECRETS['COFFERDAM_ADMISSION_REDIS_URL'])
    }
  })

  it('has names that are short enough, and selectors that select only their own pods', async () => {
    const long = await renderChart({
      release: 'a'.repeat(53),
      values: {
        cells: [4095],
        workers: [{ ...KIND, name: 'k'.repeat(15), autoscaling: { kind: 'keda' } }],
      },
    })
    for (const { metadata } of long) {
      expect(metadata.name.length, metadata.name).toBeLessThanOrEqual(63)
      for (const value of Object.values(metadata.labels ?? {})) expect(value.length).toBeLessThanOrEqual(63)
    }
    const found = [...objects, ...long].filter(({ kind }) => kind === 'Deployment')
    for (const { spec } of found) {
      const selected = found.filter(({ spec: { template } }) =>
        Object.entries(spec.selector.matchLabels).every(
          ([label, value]) => template.metadata.labels[label] === value,
        ),
      )
      expect(selected.map(({ metadata }) => metadata.name)).toHaveLength(1)
    }
  })

  it('requires the key of every Redis, so that a pod without it does not start', () => {
    for (const { kind, metadata, spec } of objects)
      if (kind === 'Deployment')
        for (const { name, valueFrom } of spec.template.spec.containers[0].env)
          if (valueFrom !== undefined && name !== 'COFFERDAM_OUTPUT_KEYS')
            expect(valueFrom.secretKeyRef.optional, `${metadata.name} ${name}`).toBe(false)
  })
})

withHelm.describe('cells that are wrong', () => {
  const values = { REDIS_URL: 'redis://r', DATABASE_URL: 'postgres://p' }
  it.each([
    ['cell 0, which every fleet has', { cells: [0] }, /cells/],
    [
      'a tenant in a cell that the fleet lacks',
      { cells: [1], config: { cells: { tenants: { acme: 2 } } } },
      /places the tenant acme in cell 2: add that cell to `cells`/,
    ],
    ['all others in such a cell', { config: { cells: { others: 3 } } }, /config.cells.others is cell 3/],
    ['workers in such a cell', { workers: [{ ...KIND, cells: [1] }] }, /workers.process.cells has cell 1/],
    ['a dispatcher in such a cell', { dispatcher: { cell: 1 } }, /dispatcher.cell is 1/],
    [
      'a directory of one kind of workers',
      { cells: [1], workers: [{ ...KIND, config: { cells: { others: 1 } } }] },
      /workers.process.config.cells: all processes of a fleet need the same directory/,
    ],
    ['a kind with the name of a cell', { workers: [{ ...KIND, name: 'process-cell-1' }] }, /name/],
    [
      'a Secret of the chart without the Redis of a cell',
      { cells: [1], secret: { create: true, values } },
      /secret.values.REDIS_URL_1 is missing/,
    ],
    [
      'a Secret of the chart without the Redis of the caps',
      { admissionRedis: { enabled: true }, secret: { create: true, values } },
      /secret.values.COFFERDAM_ADMISSION_REDIS_URL is missing/,
    ],
    [
      'an external secret without the Redis of a cell',
      { cells: [1], secret: { external: { enabled: true, store: { name: 'vault' } } } },
      /secret.external.keys.REDIS_URL_1 is missing/,
    ],
  ])('are refused: %s', async (_title, wrong, reason) => {
    await expect(renderChart({ values: wrong })).rejects.toThrow(reason)
  })
})
