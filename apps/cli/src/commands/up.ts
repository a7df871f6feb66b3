/**
 * Runs everything on one machine, in one process:
 *
 *   claim data dir ─ check port ─ probe backends ─ servers ─ schema, tenant, key ─ worker ─ API ─ dispatcher ─ demo ─ stay
 *
 * One stack owns what was started and stops it in reverse order, whatever fails in between.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { loadConfig as loadApiConfig, runApi } from '@cofferdam/api'
import { createClient } from '@cofferdam/client'
import { readAll } from '@cofferdam/config'
import {
  type AuditRow,
  auditRowSchema,
  type ExecutionRequest,
  executionRequestSchema,
  type ExecutionResult,
  parse,
} from '@cofferdam/contract'
import { loadConfig as loadDispatcherConfig, runDispatcher } from '@cofferdam/dispatcher'
import { compileRules, redactText } from '@cofferdam/executor'
import { startTelemetry, type Telemetry } from '@cofferdam/telemetry'
import { loadConfig as loadWorkerConfig, runWorker } from '@cofferdam/worker'
import { z } from 'zod'
import workspace from '../../package.json' with { type: 'json' }
import { apiOver, apiUrlFile } from '../api-connection.ts'
import { CommandFailure, type Command, type Context, untilStopped } from '../command.ts'
import { DEFAULT_PORT, type Environment } from '../config.ts'
import { showDashboardLink } from '../dashboard-link.ts'
import { DEMO_TENANT, openDataDir, prepareStore } from '../data-dir.ts'
import { EXIT, exitStatusFor } from '../exit-status.ts'
import { bestOf, findBackends, whyNotStronger, whyUnsafe, type BackendFinding } from '../local-backends.ts'
import { hasFlag, numberFlag } from '../parse-command-line.ts'
import { requireFreePort, type Servers, startServers } from '../private-servers.ts'
import { resultLines } from '../show-result.ts'
import type { Terminal } from '../terminal.ts'

/** The first sandbox on a cold machine takes seconds, and the demo's own deadline is 30 s. */
const DEMO_WAIT_MS = 90_000

const invocationsSchema = z.object({ invocations: z.array(auditRowSchema) })

export const command: Command = {
  usage: '[--once] [--clean] [--port N] [--no-link]',
  details:
    'Starts a private Redis and Postgres in the data directory (unless REDIS_URL or DATABASE_URL are ' +
    'set), the API on\n' +
    '127.0.0.1:7070 and one worker, runs one demo execution, and runs until Ctrl-C. The first Ctrl-C ' +
    'drains, a second one\n' +
    'ends at once.',
  flags: {
    once: { type: 'boolean', description: 'exit after the demo, with its exit status' },
    clean: { type: 'boolean', description: 'remove the data directory first' },
    'no-link': { type: 'boolean', description: 'print no link that signs in to the dashboard' },
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
    // A mistake in the environment is reported before anything is started.
    const unstarted = appEnvironment(context, UNUSED)
    const [{ host, port: usualPort }] = readAll(
      () => loadApiConfig(unstarted),
      () => loadWorkerConfig(unstarted),
      () => loadDispatcherConfig(unstarted),
    )
    const port = numberFlag(line, 'port', { min: 0, max: 65_535 }) ?? usualPort
    await using owned = new AsyncDisposableStack()
    owned.defer(() => terminal.progress(null))
    terminal.progress('starting …')

    const claim = await openDataDir(config.dataDir, { clean: hasFlag(line, 'clean') })
    owned.defer(() => claim.release())
    await requireFreePort(host, port)

    const findings = await findBackends(config.environment, 'configured', stop)
    if (bestOf(findings) === null) {
      terminal.value({ error: 'no safe backend', backends: findings })
      for (const text of whyUnsafe(config.environment, findings)) terminal.note(text)
      return EXIT.platform
    }

    terminal.progress('starting Redis and Postgres …')
    const servers = await startServers(config)
    owned.defer(() => stopServers(servers))
    const { adminKey } = await prepareStore(servers.databaseUrl, config.dataDir)

    terminal.progress('starting worker and API …')
    const environment = appEnvironment(context, { ...servers, port })
    const telemetry = owned.use(await sharedTelemetry(environment))
    // One process has one set of metrics, which the API's port serves.
    const forWorker = { ...environment, COFFERDAM_METRICS_PORT: '' }
    const worker = await runWorker(loadWorkerConfig(forWorker), { telemetry })
    owned.defer(() => worker.close())
    const apiConfig = loadApiConfig(environment)
    const api = await runApi(apiConfig, { telemetry })
    owned.defer(() => api.close())
    // Commands with this data directory find the API by this file, on whatever port.
    writeFileSync(apiUrlFile(config.dataDir), `${api.url}\n`)
    owned.defer(() => rmSync(apiUrlFile(config.dataDir), { force: true }))
    const served = loadDispatcherConfig(forWorker)
    if (served.environments.length > 0) {
      const dispatcher = await runDispatcher(served, { telemetry })
      owned.defer(() => dispatcher.close())
    }

    terminal.progress('running the demo …')
    const demo = await runDemo(api.url, adminKey, stop)
    terminal.progress(null)
    report(context, { demo, findings, servers, url: api.url })
    if (hasFlag(line, 'once')) return exitStatusFor(demo.result)
    if (!hasFlag(line, 'no-link'))
      await showDashboardLink(terminal, apiOver(api.url, adminKey, stop), apiConfig.publicUrl)
    terminal.line('Press Ctrl-C to stop.')

    const ended = await Promise.race([untilStopped(stop), ...servers.own.map((server) => server.exited)])
    if (typeof ended === 'string') terminal.note(`A server ended (${ended}). Stopping.`)
    else terminal.note('Draining. Press Ctrl-C again to end at once.')
    return typeof ended === 'string' ? EXIT.platform : EXIT.ok
  },
}

/** Placeholders for checking the configuration before the servers run. */
const UNUSED = { redisUrl: 'redis://unused', databaseUrl: 'postgres://unused' }

/** The environment of worker and API: the user's, plus the addresses of the started servers. */
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
    // A person watches this terminal, so only warnings are shown.
    COFFERDAM_LOG_LEVEL: environment['COFFERDAM_LOG_LEVEL'] || 'warn',
  }
}

/** One telemetry for both apps, because OpenTelemetry's API allows one provider per process. */
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
  const { execution_id } = await client.enqueue(demoRequest())
  const result = await client.wait(execution_id, { timeoutMs: DEMO_WAIT_MS, signal: stop })
  if (result === null)
    throw new CommandFailure(
      `The demo ${execution_id} did not end within ${DEMO_WAIT_MS / 1000} s. Run cofferdam doctor to see ` +
        `what is wrong.`,
    )
  const path = `/v1/audit/invocations?tenant_id=${DEMO_TENANT}&limit=50`
  const { invocations } = await apiOver(url, key, stop).ask(invocationsSchema, 'GET', path)
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
  terminal.lines([...outputLines(result), ...resultLines(result, terminal)])
  if (audit === null) terminal.line('  audit row  missing')
  else terminal.lines(auditLines(audit, terminal))
  for (const text of stronger) terminal.line(`  not on     ${text}`)
  terminal.line()
  terminal.line(`${terminal.style('bold', 'API')}        ${facts.url}  (docs: ${facts.url}/docs)`)
  terminal.line('Try        npx cofferdam run FILE · npx cofferdam audit · npx cofferdam --help')
  terminal.line(
    `Data       ${config.dataDir} (Redis: ${facts.servers.redisHow}; Postgres: ${facts.servers.postgresHow})`,
  )
}

/** The demo prints something and returns a value. */
const DEMO_SOURCE = `import sys
print("Hello from Python", sys.version.split()[0], "in a sandbox")
1 + 1
`

const demoRequest = (): ExecutionRequest =>
  parse(executionRequestSchema, {
    tenant_id: DEMO_TENANT,
    agent_id: 'up',
    program: { type: 'script', language: 'python', source: DEMO_SOURCE },
  })

/** The audit row in two lines. */
function auditLines(row: AuditRow, terminal: Terminal): string[] {
  const shown = [
    `${row.tenant_id}/${row.agent_id}`,
    `${row.ending}, exit code ${row.exit_code ?? 'none'}`,
    `${Math.round(row.duration_ms)} ms`,
    `${row.backend ?? 'no backend'} (${row.isolation ?? 'none'})`,
    row.quota_charged ? 'charged' : 'not charged',
    `kept ${row.retention_days} days`,
  ]
  return [
    `  audit row  ${shown.join(' · ')}`,
    terminal.style(
      'dim',
      `             program sha256 ${row.executed_code_hash.slice(0, 16)}…, stdout ${row.stdout_bytes} B`,
    ),
  ]
}

/** The output of the demo, marked to differ from the command's own lines. */
function outputLines(result: ExecutionResult): string[] {
  return [...result.stdout.trimEnd().split('\n'), ...result.stderr.trimEnd().split('\n')]
    .filter((text) => text !== '')
    .map((text) => `  | ${text}`)
}
