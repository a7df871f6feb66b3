import { execFile } from 'node:child_process'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { blobPlaceOf } from '@cofferdam/config'
import { inTime } from '@cofferdam/contract'
import {
  checkHost,
  firecrackerConfigSchema,
  settingsOf,
  type FirecrackerSettings,
  type HostFinding,
} from '@cofferdam/backend-microvm/firecracker'
import { type RunningServer, startPostgres, startRedis } from '@cofferdam/embedded'
import { connectRedis } from '@cofferdam/queue'
import { checkBucket, createStore } from '@cofferdam/store'
import type { Command } from '../command.ts'
import type { CliConfig, Environment } from '../config.ts'
import { EXIT } from '../exit-status.ts'
import { hasFlag } from '../parse-command-line.ts'
import {
  bestOf,
  findBackends,
  howToGetOne,
  whyNotStronger,
  workerSettings,
  type BackendFinding,
} from '../local-backends.ts'
import type { Terminal } from '../terminal.ts'

const run = promisify(execFile)

/** How long a configured Redis may take to connect and answer. */
const REDIS_MS = 5000

export const command: Command = {
  usage: '',
  details:
    'Tries everything that it reports: probes every backend, and starts and stops a private Redis and ' +
    'Postgres. If\n' +
    'REDIS_URL is set, connects to that Redis and checks that it keeps what it is given. If DATABASE_URL ' +
    'is set,\n' +
    'checks that the database and the blob folder accept what workers store. If COFFERDAM_BLOBS is set, ' +
    'writes a\n' +
    'probe object to the bucket, reads it and deletes it. Exit status 1 when no execution could run safely ' +
    'on this\n' +
    'machine, or, with --production, when Firecracker could not.',
  flags: {
    production: {
      type: 'boolean',
      description: 'also check whether this host can run Firecracker as it should be run',
    },
  },
  words: { min: 0, max: 0 },
  examples: ['cofferdam doctor', 'cofferdam doctor --json | jq .best', 'cofferdam doctor --production'],
  async run(context, line) {
    const { terminal, config, stop } = context
    terminal.progress('checking this machine …')
    const isProduction = hasFlag(line, 'production')
    const [findings, redis, postgres, bucket, python, firecracker] = await Promise.all([
      findBackends(config.environment, 'every', stop),
      config.redisUrl === undefined ? tryServer(startRedis) : redisFinding(config.redisUrl),
      config.databaseUrl === undefined ? tryServer(startPostgres) : storeFinding(config.databaseUrl, config),
      bucketFinding(config),
      pythonFinding(),
      isProduction ? checkHost(firecrackerSettings(config.environment)) : null,
    ])
    const best = bestOf(findings)
    const node = { ok: true, found: `Node.js ${process.versions.node}` }
    const machine = { redis, postgres, ...(bucket === null ? {} : { bucket }), python, node }
    terminal.value({
      backends: findings,
      best: best === null ? null : { name: best.name, isolation: best.isolation },
      why_not_stronger: best === null ? [] : whyNotStronger(findings, best),
      machine,
      ...(firecracker === null ? {} : { firecracker }),
    })
    report(findings, best, machine, terminal)
    if (firecracker !== null) reportFirecracker(firecracker, terminal)
    const isReady = firecracker?.every(({ ok, needed }) => ok || !needed) ?? true
    const isStored = redis.ok && postgres.ok && bucket?.ok !== false
    return best !== null && isStored && isReady ? EXIT.ok : EXIT.platform
  },
}

function report(
  findings: readonly BackendFinding[],
  best: BackendFinding | null,
  machine: Record<string, ServerFinding>,
  terminal: Terminal,
): void {
  const mark = (ok: boolean) => (ok ? terminal.style('green', '✓') : terminal.style('red', '✗'))
  const dim = (text: string) => terminal.style('dim', text)
  terminal.line(terminal.style('bold', 'Backends, strongest first'))
  for (const { name, isolation, summary, probe, safe } of findings) {
    terminal.line(`${mark(probe.ok)} ${name.padEnd(10)} ${isolation.padEnd(17)} ${dim(summary)}`)
    if (probe.ok) for (const feature of probe.features) terminal.line(`    ${feature}`)
    else terminal.line(`    ${probe.why}\n    → ${probe.fix}`)
    if (probe.ok && !safe) terminal.line('    used only for a tenant whose policy names it')
  }
  terminal.line()
  if (best === null) terminal.lines(howToGetOne(findings, process.platform))
  else {
    terminal.line(`Executions run on ${terminal.style('bold', best.name)} (${best.isolation}).`)
    for (const text of whyNotStronger(findings, best)) terminal.line(`  not ${text}`)
  }
  terminal.line()
  terminal.line(terminal.style('bold', 'Other requirements'))
  for (const [name, { ok, found }] of Object.entries(machine))
    terminal.line(`${mark(ok)} ${name.padEnd(10)} ${found}`)
}

/** The settings of a configured `microvm` backend, else the default ones. */
function firecrackerSettings(environment: Environment): FirecrackerSettings {
  const backends: Readonly<Record<string, unknown>> = workerSettings(environment).backends
  const microvm = backends['microvm'] as { firecracker?: unknown } | undefined
  return settingsOf(firecrackerConfigSchema.parse(microvm?.firecracker ?? {}))
}

/** `✗` marks something that is needed and missing, `!` something that is only advised. */
function reportFirecracker(findings: readonly HostFinding[], terminal: Terminal): void {
  terminal.line()
  terminal.line(terminal.style('bold', 'Firecracker on this host'))
  for (const { name, ok, needed, found, fix } of findings) {
    const mark = ok
      ? terminal.style('green', '✓')
      : needed
        ? terminal.style('red', '✗')
        : terminal.style('yellow', '!')
    terminal.line(`${mark} ${name.padEnd(18)} ${found}`)
    if (!ok) terminal.line(`    → ${fix}`)
  }
}

/** Checks the configured Redis: whether it answers, and whether it loses entries (host-setup.md). */
export async function redisFinding(url: string): Promise<ServerFinding> {
  const redis = connectRedis(url, 'worker')
  let lastError = ''
  redis.on('error', (error: Error) => (lastError = error.message))
  try {
    const info = await inTime(
      redis.info(),
      REDIS_MS,
      () => new Error(`no answer within ${REDIS_MS / 1000} s${lastError === '' ? '' : ` (${lastError})`}`),
    )
    const valueOf = (name: string): string => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? ''
    const policy = valueOf('maxmemory_policy')
    // A managed Redis may hide its settings.
    const isKept = policy === '' || policy === 'noeviction'
    const loses = isKept ? '' : `; maxmemory-policy ${policy} loses executions, set noeviction`
    const forgets = valueOf('aof_enabled') === '0' ? '; without appendonly a restart loses executions' : ''
    return { ok: isKept, found: `configured by REDIS_URL: ${valueOf('redis_version')}${loses}${forgets}` }
  } catch (error) {
    return {
      ok: false,
      found: `configured by REDIS_URL: ${error instanceof Error ? error.message : String(error)}`,
    }
  } finally {
    redis.disconnect()
  }
}

/** Checks the configured database. Workers accept executions only after this check succeeds. */
async function storeFinding(databaseUrl: string, config: CliConfig): Promise<ServerFinding> {
  try {
    // `bucketFinding` checks the bucket.
    const { blobDir } = blobPlaceOf(config)
    await using store = await createStore({ databaseUrl, blobDir })
    await store.check()
    return { ok: true, found: 'configured by DATABASE_URL; schema, rights and blob folder are correct' }
  } catch (error) {
    return {
      ok: false,
      found: `configured by DATABASE_URL: ${error instanceof Error ? error.message : String(error)}`,
    }
  }
}

/** Null without a configured bucket. */
async function bucketFinding(config: CliConfig): Promise<ServerFinding | null> {
  const { bucket } = blobPlaceOf(config)
  if (bucket === undefined) return null
  const name = `s3://${bucket.bucket}${bucket.prefix === '' ? '' : `/${bucket.prefix}`}`
  try {
    await checkBucket(bucket)
    return { ok: true, found: `${name}: a probe object was written, read and deleted` }
  } catch (error) {
    return { ok: false, found: `${name}: ${error instanceof Error ? error.message : String(error)}` }
  }
}

async function pythonFinding(): Promise<ServerFinding> {
  try {
    const { stdout } = await run('python3', ['--version'], { timeout: 10_000 })
    return { ok: true, found: stdout.trim() }
  } catch {
    return {
      ok: false,
      found:
        'python3 is not on PATH. The process backend needs it: apt-get install python3, or brew install ' +
        'python',
    }
  }
}

interface ServerFinding {
  ok: boolean
  /** How it was found, or why it is not available. The message names the fix. */
  found: string
}

/** Starts and stops a private server in a temporary directory, to find out whether that works here. */
async function tryServer(
  start: (options: { dataDir: string; durable: boolean }) => Promise<RunningServer>,
): Promise<ServerFinding> {
  const directory = await mkdtemp(join(tmpdir(), 'cofferdam-try-'))
  // Without user namespaces, root's Postgres runs as another user, which must be able to enter.
  await chmod(directory, 0o711)
  try {
    const server = await start({ dataDir: join(directory, 'data'), durable: false })
    await server.stop()
    return { ok: true, found: server.how }
  } catch (error) {
    return { ok: false, found: error instanceof Error ? error.message : String(error) }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
