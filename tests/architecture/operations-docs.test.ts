/** Checks docs/operations against the code: paths, variables, metrics, log records and endings exist. */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ENDINGS, EXIT_STATUSES } from '@cofferdam/contract'
import { LOCK_MS } from '@cofferdam/queue'
import { LOG_FACTS, METRIC_FACTS, prometheusName } from '@cofferdam/telemetry/api'
import { describe, expect, it } from 'vitest'
import { API_FIELDS } from '../../apps/api/src/config.ts'
import { CLI_FIELDS } from '../../apps/cli/src/config.ts'
import { WORKER_FIELDS } from '../../apps/worker/src/config.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const pages = [
  ...globSync(['docs/operations/*.md', 'libs/backends/*/OPERATIONS.md'], { cwd: ROOT }),
  'infra/kubernetes/README.md',
].toSorted()
const read = (path: string): string => readFileSync(ROOT + path, 'utf8')
const all = pages.map(read).join('\n')

describe('docs/operations', () => {
  it('has all its pages linked from its index, and the index from the README', () => {
    const index = read('docs/operations/index.md')
    for (const page of pages.filter((path) => /^docs\/operations\/(?!index)/.test(path)))
      expect(index).toContain(`(${page.slice('docs/operations/'.length)})`)
    expect(read('README.md')).toContain('docs/operations/index.md')
  })

  it.each(pages)('%s names only existing paths of the repository', (page) => {
    const paths = [...read(page).matchAll(/\b((?:docs|infra|tests|libs|apps)\/[\w./*-]*[\w*])/g)].map(
      ([, path = '']) => path,
    )
    // A link is relative to its page, and pages.test.ts checks it.
    for (const path of paths.filter((each) => !read(page).includes(`../${each}`)))
      expect(globSync(`${path}*`, { cwd: ROOT }).length, path).toBeGreaterThan(0)
  })

  it('names only variables that processes read', () => {
    const known = Object.values({ ...API_FIELDS, ...WORKER_FIELDS, ...CLI_FIELDS }).map(
      ({ variable }) => variable,
    )
    const named = new Set([...all.matchAll(/\b(COFFERDAM_[A-Z_]+)\b/g)].map(([, name = '']) => name))
    expect(named.size).toBeGreaterThan(8)
    expect([...named].filter((name) => !known.includes(name))).toEqual([])
  })

  it('names only metrics that processes export', () => {
    const known = (Object.keys(METRIC_FACTS) as (keyof typeof METRIC_FACTS)[]).map(prometheusName)
    const named = [...all.matchAll(/`(?:rate\()?(cofferdam_\w+)/g)].map(([, name = '']) => name)
    const roles = ['cofferdam_app', 'cofferdam_all_tenants', 'cofferdam_sweeper']
    expect(named.length).toBeGreaterThan(5)
    expect(named.filter((name) => !known.includes(name) && !roles.includes(name))).toEqual([])
  })

  it('states the real lock time', () => {
    const figures = `${all}\n${read('docs/reference/telemetry.md')}\n${read('infra/prometheus/alerts.yaml')}`
    const said = [...figures.replaceAll('\n', ' ').matchAll(/lock time \((\d+) s\)/g)].map(([, seconds]) =>
      Number(seconds),
    )
    expect(said.length).toBeGreaterThan(3)
    expect(new Set(said)).toEqual(new Set([LOCK_MS / 1000]))
  })

  it('quotes only log records that processes write', () => {
    const messages = Object.keys(LOG_FACTS)
    const quoted = [
      ...all.replaceAll('\n', ' ').matchAll(/log records? ((?:"[^"]+"(?:, | and )?)+)/g),
    ].flatMap(([, list = '']) => [...list.matchAll(/"([^"]+)"/g)].map(([, message = '']) => message))
    expect(quoted.length).toBeGreaterThan(3)
    expect(quoted.filter((message) => !messages.includes(message))).toEqual([])
  })
})

describe('docs/operations/runbook.md', () => {
  const page = read('docs/operations/runbook.md')

  it('has a section for every ending and no others', () => {
    const section = page.split('\n## By ending\n')[1]?.split('\n## ')[0] ?? ''
    const headings = [...section.matchAll(/^### (.+)$/gm)].flatMap(([, heading = '']) =>
      [...heading.matchAll(/`(\w+)`/g)].map(([, ending = '']) => ending),
    )
    expect(headings.toSorted()).toEqual([...ENDINGS].toSorted())
  })

  it('has a row for every exit status, and every ending is in one', () => {
    const section = page.split('\n## By exit status\n')[1]?.split('\n## ')[0] ?? ''
    const rows = [...section.matchAll(/^\| `(\w+)` \| ([^|]+) \|/gm)]
    expect(new Set(rows.map(([, status]) => status))).toEqual(new Set(EXIT_STATUSES))
    const endings = rows.flatMap(([, , list = '']) =>
      [...list.matchAll(/`(\w+)`/g)].map(([, ending = '']) => ending),
    )
    expect(endings.toSorted()).toEqual([...ENDINGS].toSorted())
  })
})
