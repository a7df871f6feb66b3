/**
 * Everything on one machine, in one process:
 *
 *   claim data dir ─ check port ─ probe backends ─ servers ─ schema, tenant, key ─ worker ─ API ─ demo ─ stay
 *
 * What was started is owned by one stack and stopped in the opposite order, whatever happens in between.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { loadConfig as loadApiConfig, runApi } from '@cofferdam/api'
import { createClient } from '@cofferdam/client'
import { auditRowSchema, parse, type AuditRow, type ExecutionResult } from '@cofferdam/contract'
import { compileRules, redactText } from '@cofferdam/executor'
import { startTelemetry, type Telemetry } from '@cofferdam/telemetry'
import { loadConfig as loadWorkerConfig, runWorker } from '@cofferdam/worker'
import { z } from 'zod'
import workspace from '../../package.json' with { type: 'json' }
import { apiOver, apiUrlFile } from '../api-connection.ts'
import { bestOf, howToGetOne, whyNotStronger } from '../backend-advice.ts'
import type { Command, Context } from '../command.ts'
import { DEFAULT_PORT, type Environment } from '../config.ts'
import { openDataDir } from '../data-dir.ts'
import { auditLines, demoRequest, outputLines } from '../demo.ts'
import { EXIT, exitStatusFor } from '../exit-status.ts'
import { requireFreePort } from '../free-port.ts'
import { everyBackend, findBackends, type BackendFinding } from '../local-backends.ts'
import { hasFlag, numberFlag } from '../parse-command-line.ts'
import { DEMO_TENANT, prepareStore } from '../prepare-store.ts'
import { startServers, type Servers } from '../private-servers.ts'
import { resultLines } from '../show-result.ts'
import { untilStopped } from '../until-stopped.ts'

/** A first sandbox on a cold machine takes seconds; the demo's own deadline is 30 s. */
const DEMO_WAIT_MS = 90_000

const invocationsSchema = z.object({ invocations: z.array(auditRowSchema) })

export const command: Command = {
  usage: '[--once] [--clean] [--port N]',
  details:
    'Starts a private Redis and Postgres in the data directory (unless REDIS_URL or DATABASE_URL are set), the API on\n' +
    '127.0.0.1:7070 and one worker, runs one demo execution, and stays until Ctrl-C: the first drains, a second ends at once.',
  flags: {
    once: { type: 'boolean', description: 'leave after the demo, with its exit status' },
    clean: { type: 'boolean', description: 'remove the data directory first' },
    port: {
      type: 'string',
      short: 'p',
      value: 'N',
      description: `port of the API (default: ${DEFAULT_PORT}; 0 takes a free one)`,
    },
  },
  words: { min: 0, max: 0 },
  examples: [
    'cofferdam up',
    'cofferdam up --once',
    'cofferdam up --clean --port 8080',
    'COFFERDAM_BACKENDS=process cofferdam up',
  ],
  async run(context, line) {
    const { config, terminal, stop } = context
    // Before anything is started: a mistake in the environment is told at once.
    const { host, port: usualPort } = loadApiConfig(appEnvironment(context, UNUSED))
    const port = numberFlag(line, 'port', { min: 0, max: 65_535 }) ?? usualPort
    await using owned = new AsyncDisposableStack()
    owned.defer(() => terminal.progress(null))
    terminal.progress('starting …')

    const claim = await openDataDir(config.dataDir, { clean: hasFlag(line, 'clean') })
    owned.defer(() => claim.release())
    await requireFreePort(host, port)

    const findings = await probeBackends(context)
    if (bestOf(findings) === null) {
      terminal.value({ error: 'no safe backend', backends: findings })
      for (const text of howToGetOne(findings, process.platform)) terminal.note(text)
      return EXIT.platform
    }

    terminal.progress('starting Redis and Postgres …')
    const servers = await startServers(config)
    owned.defer(() => stopServers(servers))
    const { adminKey } = await prepareStore(servers.databaseUrl, config.dataDir)

    terminal.progress('starting worker and API …')
    const environment = appEnvironment(context, { ...servers, port })
    const telemetry = owned.use(await sharedTelemetry(environment))
    // One process, one set of metrics: the API's port has them all.
    const forWorker = { ...environment, COFFERDAM_METRICS_PORT: '' }
    const worker = await runWorker(loadWorkerConfig(forWorker), { telemetry })
    owned.defer(() => worker.close())
    const api = await runApi(loadApiConfig(environment), { telemetry })
    owned.defer(() => api.close())
    // Commands of this data directory find it there, on whichever port.
    writeFileSync(apiUrlFile(config.dataDir), `${api.url}\n`)
    owned.defer(() => rmSync(apiUrlFile(config.dataDir), { force: true }))

    terminal.progress('running the demo …')
    const demo = await runDemo(api.url, adminKey, stop)
    terminal.progress(null)
    report(context, { demo, findings, servers, url: api.url })
    if (hasFlag(line, 'once')) return exitStatusFor(demo.result)
    terminal.line('Ctrl-C stops it.')

    const ended = await Promise.race([untilStopped(stop), ...servers.own.map((server) => server.exited)])
    if (typeof ended === 'string') terminal.note(`A server ended (${ended}); stopping.`)
    else terminal.note('Draining; Ctrl-C again ends at once.')
    return typeof ended === 'string' ? EXIT.platform : EXIT.ok
  },
}

async function probeBackends(context: Context): Promise<BackendFinding[]> {
  const backends = await everyBackend(context.config.environment)
  try {
    return await findBackends(backends, context.stop)
  } finally {
    for (const backend of backends.values()) await backend[Symbol.asyncDispose]()
  }
}

/** Stand for the servers while the configuration is only checked. */
const UNUSED = { redisUrl: 'redis://unused', databaseUrl: 'postgres://unused' }

/** What worker and API read instead of the user's environment: the same, with what was started filled in. */
function appEnvironment(
  context: Context,
  started: { redisUrl: string; databaseUrl: string; port?: number },
): Environment {
  const { environment, dataDir } = context.config
  return {
    ...environment,
    REDIS_URL: started.redisUrl,
    DATABASE_URL: started.databaseUrl,
    COFFERDAM_DATA_DIR: dataDir,
    ...(started.port === undefined ? {} : { COFFERDAM_PORT: String(started.port) }),
    // Somebody watches this terminal: what is worth a line there is a warning.
    COFFERDAM_LOG_LEVEL: environment['COFFERDAM_LOG_LEVEL'] || 'warn',
  }
}

/** One for both apps: OpenTelemetry's API knows one provider a process. */
function sharedTelemetry(environment: Environment): Promise<Telemetry> {
  const rules = compileRules([], {})
  const { otlpEndpoint, traceSampleRatio, traceSlowMs } = loadApiConfig(environment)
  return startTelemetry({
    service: 'cofferdam-up',
    version: workspace.version,
    redact: (text) => redactText(rules, text).text,
    slowMs: traceSlowMs,
    ...(traceSampleRatio === undefined ? {} : { sampleRatio: traceSampleRatio }),
    ...(otlpEndpoint === undefined ? {} : { otlpEndpoint }),
  })
}

async function stopServers(servers: Servers): Promise<void> {
  await Promise.all(servers.own.map((server) => server.stop()))
}

interface Demo {
  result: ExecutionResult
  audit: AuditRow | null
}

async function runDemo(url: string, key: string, stop: AbortSignal): Promise<Demo> {
  await using client = createClient({ baseUrl: url, apiKey: key })
  const { execution_id } = await client.enqueue(demoRequest(DEMO_TENANT))
  const result = await client.wait(execution_id, { timeoutMs: DEMO_WAIT_MS, signal: stop })
  if (result === null) throw new Error(`the demo ${execution_id} did not end within ${DEMO_WAIT_MS / 1000} s`)
  const answer = await apiOver(url, key, stop).call(
    'GET',
    `/v1/audit/invocations?tenant_id=${DEMO_TENANT}&limit=50`,
  )
  const { invocations } = parse(invocationsSchema, answer, 'the answer')
  return { result, audit: invocations.find((row) => row.execution_id === execution_id) ?? null }
}

function report(
  context: Context,
  facts: { demo: Demo; findings: BackendFinding[]; servers: Servers; url: string },
): void {
  const { terminal, config } = context
  const { result, audit } = facts.demo
  const used = facts.findings.find(({ name }) => name === result.backend) ?? null
  const stronger = used === null ? [] : whyNotStronger(facts.findings, used)
  terminal.value({ url: facts.url, result, audit, backend: used, why_not_stronger: stronger })
  terminal.line(terminal.style('bold', 'Demo: print and 1 + 1 in Python'))
  for (const text of [...outputLines(result), ...resultLines(result, terminal)]) terminal.line(text)
  if (audit === null) terminal.line('  audit row  missing')
  else for (const text of auditLines(audit, terminal)) terminal.line(text)
  for (const text of stronger) terminal.line(`  not on     ${text}`)
  terminal.line()
  terminal.line(`${terminal.style('bold', 'API')}        ${facts.url}  (docs: ${facts.url}/docs)`)
  terminal.line('Try        npx cofferdam run FILE · npx cofferdam audit · npx cofferdam --help')
  terminal.line(
    `Data       ${config.dataDir} (Redis: ${facts.servers.redisHow}; Postgres: ${facts.servers.postgresHow})`,
  )
}
