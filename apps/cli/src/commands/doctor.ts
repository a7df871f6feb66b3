import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import path from 'node:path'
import { startPostgres, startRedis } from '@cofferdam/embedded'
import { createStore } from '@cofferdam/store'
import { bestOf, howToGetOne, whyNotStronger } from '../backend-advice.ts'
import type { Command } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { everyBackend, findBackends, type BackendFinding } from '../local-backends.ts'
import type { Terminal } from '../terminal.ts'
import { tryServer, type ServerFinding } from '../try-server.ts'

const run = promisify(execFile)

export const command: Command = {
  usage: '',
  details:
    'Really tries what it reports: probes every backend, starts and stops a private Redis and Postgres, or looks whether\n' +
    'the configured Postgres and the blob folder take what workers store. Exit status 1\n' +
    'when nothing here could run an execution safely.',
  flags: {},
  words: { min: 0, max: 0 },
  examples: ['cofferdam doctor', 'cofferdam doctor --json | jq .best'],
  async run(context) {
    const { terminal, config, stop } = context
    terminal.progress('looking at this machine …')
    const backends = await everyBackend(config.environment)
    try {
      const [findings, redis, postgres, python] = await Promise.all([
        findBackends(backends, stop),
        serverFinding(config.redisUrl, 'REDIS_URL', startRedis),
        config.databaseUrl === undefined
          ? tryServer(startPostgres)
          : storeFinding(config.databaseUrl, config.dataDir),
        pythonFinding(),
      ])
      const best = bestOf(findings)
      const node = { ok: true, found: `Node.js ${process.versions.node}` }
      const machine = { redis, postgres, python, node }
      terminal.value({
        backends: findings,
        best: best === null ? null : { name: best.name, isolation: best.isolation },
        why_not_stronger: best === null ? [] : whyNotStronger(findings, best),
        machine,
      })
      report(findings, best, machine, terminal)
      return best !== null && redis.ok && postgres.ok ? EXIT.ok : EXIT.platform
    } finally {
      for (const backend of backends.values()) await backend[Symbol.asyncDispose]()
    }
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
    if (probe.ok && !safe) terminal.line('    used only for a tenant whose policy asks for it by name')
  }
  terminal.line()
  if (best === null) for (const text of howToGetOne(findings, process.platform)) terminal.line(text)
  else {
    terminal.line(`Executions run on ${terminal.style('bold', best.name)} (${best.isolation}).`)
    for (const text of whyNotStronger(findings, best)) terminal.line(`  not ${text}`)
  }
  terminal.line()
  terminal.line(terminal.style('bold', 'The rest'))
  for (const [name, { ok, found }] of Object.entries(machine))
    terminal.line(`${mark(ok)} ${name.padEnd(10)} ${found}`)
}

/** A configured Redis is only named (its owner looks after it); a private server is started and stopped. */
async function serverFinding(
  url: string | undefined,
  variable: string,
  start: Parameters<typeof tryServer>[0],
): Promise<ServerFinding> {
  return url === undefined ? await tryServer(start) : { ok: true, found: `configured by ${variable}` }
}

/** A worker takes nothing before this is good, so its owner is told here as the worker's log tells it. */
async function storeFinding(databaseUrl: string, dataDir: string): Promise<ServerFinding> {
  try {
    await using store = await createStore({ databaseUrl, blobDir: path.join(dataDir, 'blobs') })
    await store.check()
    return { ok: true, found: 'configured by DATABASE_URL; schema, rights and blob folder are good' }
  } catch (error) {
    return {
      ok: false,
      found: `configured by DATABASE_URL: ${error instanceof Error ? error.message : String(error)}`,
    }
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
        'python3 is not on PATH; the process backend needs it (apt-get install python3, brew install python)',
    }
  }
}
