/**
 * Finds the remaining steps of an upgrade, and reasons against one, in what `cofferdam upgrade --check` read.
 */
import type { BacklogVersions, ProcessVersion } from '@cofferdam/queue'
import type { SchemaState } from '@cofferdam/store'

export interface BackendState {
  worker: string
  backend: string
  ok: boolean
  why?: string
  fix?: string
  features?: readonly string[]
}

export interface FleetState {
  schema: SchemaState
  processes: readonly ProcessVersion[]
  backlog: BacklogVersions
  backends: readonly BackendState[]
  /** The versions of the build that runs the check. */
  build: { version: string; records: number }
}

export interface Finding {
  problem: string
  fix: string
}

/** The most names that a sentence lists. */
const NAMES = 5

/** The findings in the order in which to fix them. Empty if nothing is left to do. */
export function upgradeFindings(state: FleetState): Finding[] {
  return [...unreadable(state), ...pending(state), ...outdatedImages(state), ...otherVersions(state)]
}

function unreadable({ backlog, processes, build }: FleetState): Finding[] {
  const findings: Finding[] = []
  for (const [version, count] of backlog.byVersion) {
    const records = `${many(count, 'execution')} in the queue with records of version ${version}`
    if (version > build.records)
      findings.push({
        problem: `This build reads records up to version ${build.records}, and there are ${records}.`,
        fix: 'Do not go back to it yet: keep workers of the newer version until these have ended.',
      })
    const blind = processes.filter((one) => one.role === 'worker' && one.records < version)
    if (blind.length > 0)
      findings.push({
        problem: `${named(blind.map(({ id }) => id))} cannot read ${records}.`,
        fix: 'Keep enough workers of the newer version running. They alone get these executions.',
      })
  }
  return findings
}

function pending({ schema }: FleetState): Finding[] {
  if (schema.pending.length === 0) return []
  return [
    {
      problem: `The database is at migration ${schema.database} and lacks ${named(schema.pending)}.`,
      fix: 'Run `cofferdam setup` of this version. Processes of the old version keep working.',
    },
  ]
}

/**
 * Finds backends whose probe says to run `npm run image`, and backends whose worker uses an older image than
 * the newest one.
 */
function outdatedImages({ backends }: FleetState): Finding[] {
  return backends.flatMap(({ worker, backend, ok, why = '', fix = '', features = [] }) => {
    if (!ok && fix.includes('npm run image')) return [{ problem: `${backend} on ${worker}: ${why}`, fix }]
    const stale = features.find((text) => text.includes('as it was at the start'))
    return stale === undefined
      ? []
      : [{ problem: `${backend} on ${worker} uses an older image: ${stale}.`, fix: 'Restart that worker.' }]
  })
}

function otherVersions({ processes, build, schema }: FleetState): Finding[] {
  const others = processes.filter((one) => one.version !== build.version || one.schema !== schema.build)
  return ['worker', 'api'].flatMap((role) => {
    const ids = others.filter((one) => one.role === role).map(({ id }) => id)
    if (ids.length === 0) return []
    const what = many(ids.length, `${role} process`, `${role} processes`)
    return [
      {
        problem: `${what} of another version: ${named(ids)}.`,
        fix: 'Restart them one after the other with this version, workers before API processes.',
      },
    ]
  })
}

const many = (count: number, one: string, several = `${one}s`): string =>
  `${count} ${count === 1 ? one : several}`

const named = (all: readonly string[]): string =>
  all.length <= NAMES ? all.join(', ') : `${all.slice(0, NAMES).join(', ')} and ${all.length - NAMES} more`
