/**
 * `npm run bench [-- --quick] [--json] [--only phase,…] [--executions N] [--rows N]` measures this machine.
 * It pairs figures with a baseline where there is one, and gives their spread. docs/performance.md documents
 * the keys of the JSON object.
 */
import os from 'node:os'
import { parseArgs } from 'node:util'
import { startFleet } from '../tests/fleet.ts'
import { measureAdmission } from './measure-admission.ts'
import { measureAudit } from './measure-audit.ts'
import { measureBacklog } from './measure-backlog.ts'
import { measureBound } from './measure-bound.ts'
import { measureChaos } from './measure-chaos.ts'
import { measureDispatcher } from './measure-dispatcher.ts'
import { measureFairness } from './measure-fairness.ts'
import { measureLatency } from './measure-latency.ts'
import { measureLeaks } from './measure-leaks.ts'
import { measureLimits } from './measure-limits.ts'
import { measureMachines } from './measure-machines.ts'
import { measureMigrations } from './measure-migrations.ts'
import { measureNoop } from './measure-noop.ts'
import { measureParts } from './measure-parts.ts'
import { measureSlots } from './measure-slots.ts'
import { measureTenants } from './measure-tenants.ts'
import { measureThroughput } from './measure-throughput.ts'
import { measureWarm } from './measure-warm.ts'
import { printTable } from './print-table.ts'
import type { BenchContext, BenchReport, Phase } from './report.ts'

const PHASES: Record<string, Phase> = {
  warm: measureWarm,
  bound: measureBound,
  latency: measureLatency,
  throughput: measureThroughput,
  noop: measureNoop,
  parts: measureParts,
  admission: measureAdmission,
  audit: measureAudit,
  fairness: measureFairness,
  backlog: measureBacklog,
  tenants: measureTenants,
  limits: measureLimits,
  slots: measureSlots,
  machines: measureMachines,
  dispatcher: measureDispatcher,
  leaks: measureLeaks,
  chaos: measureChaos,
  migrations: measureMigrations,
}

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    only: { type: 'string' },
    /** For `chaos`, whose full size takes hours on a machine where workers start slowly. */
    executions: { type: 'string' },
    /** For `migrations`. */
    rows: { type: 'string' },
  },
})
/**
 * Phases that run only when named. `chaos` takes a quarter of an hour or more, and `migrations` needs many
 * rows.
 */
const NAMED = new Set(['chaos', 'migrations'])
/**
 * With `--quick` this phase runs only when named, because six rounds of emulated machines take half a minute.
 */
const SLOW = 'machines'
const usual = (name: string): boolean => !NAMED.has(name) && !(values.quick && name === SLOW)
const chosen = values.only?.split(',') ?? Object.keys(PHASES).filter(usual)
const unknown = chosen.filter((name) => !(name in PHASES))
if (unknown.length > 0) {
  console.error(`no such phase: ${unknown.join(', ')}; there are ${Object.keys(PHASES).join(', ')}`)
  process.exit(2)
}

const report: BenchReport = {
  schema: 1,
  quick: values.quick,
  host: {
    cpus: os.availableParallelism(),
    cpu_model: os.cpus()[0]?.model ?? 'unknown',
    memory_mib: Math.round(os.totalmem() / 1_048_576),
    kernel: os.release(),
    node: process.version,
  },
  at: new Date().toISOString(),
  results: {},
  skipped: {},
}

{
  await using fleet = await startFleet({ durable: true })
  await fleet.createTenant('bench', {
    policy: { min_isolation: 'none' },
    caps: {
      tenant_daily: 1_000_000_000,
      agent_hourly: 1_000_000_000,
      concurrency: 1000,
      max_queued: 1_000_000,
    },
  })
  const context: BenchContext = {
    fleet,
    quick: values.quick,
    executions: values.executions === undefined ? null : Number(values.executions),
    rows: values.rows === undefined ? null : Number(values.rows),
    skip: (what, why) => {
      report.skipped[what] = why
    },
    note: (line) => {
      if (!values.json) console.error(line)
    },
  }
  for (const name of chosen) {
    const startedMs = performance.now()
    Object.assign(report.results, await PHASES[name]?.(context))
    context.note(`# ${name} (${Math.round((performance.now() - startedMs) / 1000)} s)`)
  }
}

if (values.json) console.log(JSON.stringify(report))
else printTable(report)
