/** What `cofferdam upgrade --check` finds in a fleet that is not wholly of this version. */
import { expect, it } from 'vitest'
import { upgradeFindings, type FleetState } from './upgrade-findings.ts'

const worker = (id: string, change = {}) => ({
  role: 'worker',
  id,
  version: '0.2.0',
  schema: 28,
  records: 2,
  ...change,
})

/** A fleet that is wholly of this version. */
const fleet = (change: Partial<FleetState> = {}): FleetState => ({
  schema: { database: 28, build: 28, pending: [] },
  processes: [worker('wrk_1'), { ...worker('api_1'), role: 'api' }],
  backlog: { executions: 3, byVersion: new Map([[1, 3]]) },
  backends: [{ worker: 'wrk_1', backend: 'docker', ok: true, features: ['image x (1234)'] }],
  build: { version: '0.2.0', records: 2 },
  ...change,
})

const problems = (change: Partial<FleetState>) => upgradeFindings(fleet(change)).map(({ problem }) => problem)

it('finds nothing in a fleet of one version', () => {
  expect(upgradeFindings(fleet())).toEqual([])
})

it('names pending migrations, and says that old processes keep working', () => {
  const schema = { database: 27, build: 28, pending: ['0028-more.sql'] }
  expect(upgradeFindings(fleet({ schema }))).toEqual([
    {
      problem: 'The database is at migration 27 and lacks 0028-more.sql.',
      fix: 'Run `cofferdam setup` of this version. Processes of the old version keep working.',
    },
  ])
})

it('accepts a database that is newer than this version', () => {
  const schema = { database: 29, build: 28, pending: [] }
  expect(problems({ schema })).toEqual([])
})

it('names processes of another version, workers first, also those that do not say theirs', () => {
  const old = worker('wrk_0', { version: null, schema: null, records: 1 })
  const api = { ...worker('api_0', { version: '0.1.0' }), role: 'api' }
  expect(problems({ processes: [api, old] })).toEqual([
    '1 worker process of another version: wrk_0.',
    '1 api process of another version: api_0.',
  ])
})

it('warns before going back while the queue has records that this version cannot read', () => {
  const backlog = { executions: 9, byVersion: new Map([[3, 9]]) }
  const processes = [worker('wrk_1', { records: 3 })]
  expect(upgradeFindings(fleet({ backlog, processes }))[0]).toEqual({
    problem:
      'This build reads records up to version 2, and there are 9 executions in the queue with records of ' +
      'version 3.',
    fix: 'Do not go back to it yet: keep workers of the newer version until these have ended.',
  })
})

it('names workers that cannot read a part of the queue', () => {
  const backlog = { executions: 1, byVersion: new Map([[2, 1]]) }
  const processes = [worker('wrk_1'), worker('wrk_2', { records: 1 })]
  expect(problems({ backlog, processes })).toEqual([
    'wrk_2 cannot read 1 execution in the queue with records of version 2.',
  ])
})

it('names images that are out of date', () => {
  const fix = 'Build it with `npm run image` (infra/images/build.ts).'
  const stale = 'image x as it was at the start (1234); restart the worker to use 5678'
  const backends = [
    { worker: 'wrk_1', backend: 'docker', ok: false, why: 'It holds another guest agent.', fix },
    { worker: 'wrk_2', backend: 'docker', ok: true, features: [stale] },
  ]
  expect(problems({ backends })).toEqual([
    'docker on wrk_1: It holds another guest agent.',
    `docker on wrk_2 uses an older image: ${stale}.`,
  ])
})
