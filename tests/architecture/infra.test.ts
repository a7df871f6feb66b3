/** Checks files that other programs read: they parse, and every name in them exists in our code. */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { METRIC_FACTS, prometheusName } from '@cofferdam/telemetry/api'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { WORKER_FIELDS } from '../../apps/worker/src/config.ts'
import { promqlProblems } from '../promql-names.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const read = (path: string): string => readFileSync(ROOT + path, 'utf8')
// The tests read these files without types.
// oxlint-disable-next-line typescript/no-explicit-any
type Any = any
const yaml = (path: string): Any => parse(read(path), { merge: true })

it('the check reports a wrong metric, label and state', () => {
  expect(promqlProblems('sum(cofferdam_queue_depths)')).toEqual([
    'cofferdam_queue_depths: neither a metric nor a label',
  ])
  expect(promqlProblems('cofferdam_queue_depth{cofferdam_backend="x"}')).toEqual([
    'cofferdam_queue_depth: has no label cofferdam_backend',
  ])
  expect(promqlProblems('cofferdam_queue_depth{cofferdam_state=~"queued|busy"}')).toEqual([
    'cofferdam_queue_depth: has no state busy',
  ])
  expect(promqlProblems('max by (cofferdam_lane) (cofferdam_queue_depth{cofferdam_state="queued"})')).toEqual(
    [],
  )
})

describe('infra/grafana', () => {
  const dashboard = JSON.parse(read('infra/grafana/dashboards/cofferdam.json')) as Any
  const targets = dashboard.panels.flatMap((panel: Any) =>
    panel.targets.map((target: Any) => ({ panel, target })),
  )

  it('queries only metrics that our processes export', () => {
    expect(targets.length).toBeGreaterThan(20)
    for (const { panel, target } of targets) expect(promqlProblems(target.expr), panel.title).toEqual([])
  })

  it('shows every metric', () => {
    const asked = targets.map(({ target }: Any) => target.expr).join('\n')
    const names = (Object.keys(METRIC_FACTS) as (keyof typeof METRIC_FACTS)[]).map(prometheusName)
    expect(names.filter((name) => !asked.includes(name))).toEqual([])
  })

  it('has panels that do not overlap, and datasources that are provisioned', () => {
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }: Any) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
    expect(dashboard.panels.every(({ gridPos: { x, w } }: Any) => x + w <= 24)).toBe(true)
    const provisioned = yaml('infra/grafana/provisioning/datasources/datasources.yaml').datasources.map(
      (d: Any) => d.uid,
    )
    for (const panel of dashboard.panels) expect(provisioned).toContain(panel.datasource.uid)
  })
})

describe('infra/prometheus', () => {
  const rules: Any[] = yaml('infra/prometheus/alerts.yaml').groups.flatMap((group: Any) => group.rules)
  const runbook = read('docs/operations/runbook.md')
  const headings = [...runbook.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading)

  it('alerts only on metrics that our processes export', () => {
    expect(rules.length).toBeGreaterThan(10)
    for (const rule of rules) expect(promqlProblems(rule.expr), rule.alert).toEqual([])
  })

  it.each(rules.map((rule) => [rule.alert as string, rule]))(
    '%s has a severity and a link to the runbook',
    (name, rule) => {
      expect(['critical', 'warning', 'info']).toContain(rule.labels.severity)
      expect(rule.annotations.summary.length).toBeGreaterThan(10)
      expect(rule.annotations.runbook_url).toBe(`docs/operations/runbook.md#${name.toLowerCase()}`)
      const section = runbook.split(`\n### ${name}\n`)[1]?.split('\n#')[0] ?? ''
      expect(section.trim().length, `the section of ${name}`).toBeGreaterThan(80)
    },
  )

  it('has an alert for every section of the runbook that is named like one', () => {
    const named = headings.filter((heading) => /^Cofferdam[A-Z]\w+$/.test(heading))
    expect(named.toSorted()).toEqual(rules.map((rule) => rule.alert).toSorted())
  })

  it('scrapes every service of the compose file that exports metrics', () => {
    const jobs: Any[] = yaml('infra/prometheus/prometheus.yaml').scrape_configs
    const scraped = jobs.flatMap((job) => job.dns_sd_configs.flatMap((found: Any) => found.names))
    const telling = Object.entries<Any>(yaml('docker-compose.yml').services)
      .filter(([, { command }]) => ['api', 'worker'].includes(command?.[0]))
      .map(([name]) => name)
    expect(scraped.toSorted()).toEqual(telling.toSorted())
  })

  it('scrapes the ports that the compose file opens', () => {
    const jobs: Any[] = yaml('infra/prometheus/prometheus.yaml').scrape_configs
    const services = yaml('docker-compose.yml').services
    for (const { names, port } of jobs.flatMap((job) => job.dns_sd_configs))
      for (const name of names) expect(services[name].environment.COFFERDAM_METRICS_PORT).toBe(String(port))
  })
})

const REMOTE = ['e2b', 'kubernetes', 'agentcore', 'azure']

describe('docker-compose.yml', () => {
  const { services, networks } = yaml('docker-compose.yml')
  const each = Object.entries(services as Record<string, Any>)

  it.each(each)(
    '%s has a read-only root, no capabilities, no new privileges, a non-root user and limits',
    (_name, service) => {
      expect(service.read_only).toBe(true)
      expect(service.cap_drop).toEqual(['ALL'])
      expect(service.cap_add).toBeUndefined()
      expect(service.privileged).toBeUndefined()
      expect(service.security_opt).toContain('no-new-privileges:true')
      expect(service.user).toMatch(/^[1-9]\d*:\d+$/)
      const { cpus, mem_limit: memory, pids_limit: pids } = service
      expect([Number(cpus) > 0, /^\d+[mg]$/.test(memory), pids > 0]).toEqual([true, true, true])
      expect(service.logging.options['max-size']).toBeDefined()
    },
  )

  it.each(each)(
    '%s is published only on loopback, and shares no namespaces of the host',
    (_name, service) => {
      for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/)
      for (const key of ['pid', 'ipc', 'uts', 'userns_mode', 'devices']) expect(service[key]).toBeUndefined()
      expect(service.network_mode ?? 'service:').toMatch(/^service:/)
    },
  )

  it('gives the Docker socket only to one opt-in worker', () => {
    const holders = each.filter(([, service]) =>
      JSON.stringify(service.volumes ?? []).includes('docker.sock'),
    )
    expect(holders.map(([name, service]) => [name, service.profiles])).toEqual([
      ['worker-docker', ['docker']],
    ])
  })

  it('lifts the system call filter only of doubles, which only their own worker can reach', () => {
    const lifted = each.filter(([, service]) => JSON.stringify(service.security_opt).includes('unconfined'))
    expect(lifted.map(([name]) => name)).toEqual(REMOTE.map((name) => `double-${name}`))
    for (const [, service] of lifted) {
      expect(service).toMatchObject({ profiles: ['doubles'], network_mode: 'service:worker-doubles' })
      // Docker's own profile does not let bubblewrap mount.
      expect(service.security_opt).toContain('apparmor=unconfined')
      expect(service.ports).toBeUndefined()
    }
    expect(services['worker-doubles'].environment.COFFERDAM_BACKENDS).toBe(REMOTE.join())
  })

  it('keeps the stores and the collector on an internal network', () => {
    expect(networks.private.internal).toBe(true)
    for (const name of ['redis', 'postgres', 'collector'])
      expect(services[name].networks).toEqual(['private'])
  })

  it('starts collector, Prometheus and Grafana only by profile, from existing files', () => {
    for (const name of ['collector', 'prometheus', 'grafana']) {
      expect(services[name].profiles).toEqual(['observability'])
      const mounted = services[name].volumes.filter((volume: string) => volume.startsWith('./'))
      expect(mounted.length).toBeGreaterThan(0)
      for (const volume of mounted) {
        const [from = '', , mode] = volume.split(':')
        expect(mode).toBe('ro')
        expect(globSync(from.slice(2), { cwd: ROOT })).toHaveLength(1)
      }
    }
  })

  it('gives a worker longer to stop than its drain takes', () => {
    const ms = Number(WORKER_FIELDS.drainMs.schema.parse(undefined))
    expect(Number.parseInt(services.worker.stop_grace_period, 10) * 1000).toBeGreaterThan(ms + 10_000)
  })

  it('has a collector whose pipelines use only configured parts', () => {
    const collector = yaml('infra/compose/collector.yaml')
    for (const pipeline of Object.values<Any>(collector.service.pipelines))
      for (const kind of ['receivers', 'processors', 'exporters'])
        for (const name of pipeline[kind] ?? []) expect(Object.keys(collector[kind]), name).toContain(name)
  })
})
