import { once } from 'node:events'
import { CofferdamError } from '@cofferdam/contract'
import {
  connectRedis,
  readBacklogVersions,
  readVersions,
  RECORD_VERSION,
  type ProcessVersion,
} from '@cofferdam/queue'
import { readSchemaState } from '@cofferdam/store'
import { z } from 'zod'
import workspace from '../../package.json' with { type: 'json' }
import type { Command, Context } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { hasFlag } from '../parse-command-line.ts'
import { table } from '../table.ts'
import { upgradeFindings, type BackendState, type FleetState } from '../upgrade-findings.ts'
import { UsageError } from '../usage-error.ts'

const CONNECT_MS = 5000

/**
 * The report of a worker (apps/worker, publish-backends.ts). Workers of other versions may send more fields.
 */
const reportSchema = z.looseObject({
  backends: z.array(
    z.looseObject({
      name: z.string(),
      probe: z.looseObject({
        ok: z.boolean(),
        why: z.string().optional(),
        fix: z.string().optional(),
        features: z.array(z.string()).optional(),
      }),
    }),
  ),
})

export const command: Command = {
  usage: '--check [flags]',
  details:
    'Compares the fleet of REDIS_URL and DATABASE_URL with this version: which version runs where, ' +
    'pending migrations,\n' +
    'executions in the queue that some process cannot read, and images that are out of date. Changes ' +
    'nothing. Exit\n' +
    'status 1 when something is left to do, with what to do. docs/operations/upgrade.md has the steps.',
  flags: { check: { type: 'boolean', description: 'look at the fleet, and change nothing' } },
  words: { min: 0, max: 0 },
  examples: [
    'REDIS_URL=redis://queue DATABASE_URL=postgres://cofferdam@db/cofferdam cofferdam upgrade --check',
  ],
  async run(context, line) {
    if (!hasFlag(line, 'check'))
      throw new UsageError(
        'cofferdam upgrade changes nothing by itself. Use --check, and upgrade.md for the steps.',
      )
    const state = await readFleet(context)
    const findings = upgradeFindings(state)
    show(state, findings, context)
    return findings.length === 0 ? EXIT.ok : EXIT.platform
  },
}

async function readFleet({ config }: Context): Promise<FleetState> {
  const { redisUrl, databaseUrl } = config
  if (redisUrl === undefined || databaseUrl === undefined)
    throw new CofferdamError(
      'config_invalid',
      'REDIS_URL and DATABASE_URL must be set, as for the workers of the fleet.',
    )
  const redis = connectRedis(redisUrl, 'producer')
  try {
    await once(redis, 'ready', { signal: AbortSignal.timeout(CONNECT_MS) }).catch((cause: unknown) => {
      throw new CofferdamError('queue_unavailable', undefined, { cause })
    })
    const [schema, processes, backlog, reports] = await Promise.all([
      readSchemaState(databaseUrl),
      readVersions(redis),
      readBacklogVersions(redis),
      redis.hgetall('{cofferdam}:backends'),
    ])
    const workers = new Set(processes.map(({ id }) => id))
    const backends = Object.entries(reports)
      .filter(([worker]) => workers.has(worker))
      .flatMap(([worker, json]) => backendsOf(worker, json))
    const build = { version: workspace.version, records: RECORD_VERSION }
    return { schema, processes, backlog, backends, build }
  } finally {
    redis.disconnect()
  }
}

const backendsOf = (worker: string, json: string): BackendState[] =>
  reportSchema.parse(JSON.parse(json)).backends.map(({ name, probe: { ok, why, fix, features } }) => ({
    worker,
    backend: name,
    ok,
    ...(why === undefined ? {} : { why }),
    ...(fix === undefined ? {} : { fix }),
    ...(features === undefined ? {} : { features }),
  }))

function show(
  { schema, processes, backlog, build }: FleetState,
  findings: ReturnType<typeof upgradeFindings>,
  { terminal }: Context,
): void {
  terminal.value({
    build: { ...build, schema: schema.build },
    database: { schema: schema.database, pending: schema.pending },
    processes,
    backlog: { executions: backlog.executions, by_record_version: Object.fromEntries(backlog.byVersion) },
    findings,
  })
  terminal.line(`This version: ${build.version}, schema ${schema.build}, records ${build.records}.`)
  terminal.line(`Database: schema ${schema.database}. Queue: ${backlog.executions} executions.`)
  terminal.lines(table(['ROLE', 'PROCESS', 'VERSION', 'SCHEMA', 'RECORDS'], processes.map(rowOf)))
  for (const { problem, fix } of findings) terminal.line(`✗ ${problem}\n  → ${fix}`)
  if (findings.length === 0) terminal.line('Nothing is left to do.')
}

const rowOf = ({ role, id, version, schema, records }: ProcessVersion) => [
  role,
  id,
  version ?? 'older',
  schema ?? '-',
  records,
]
