/** Real programs serve work items of the Managed Agents double. */
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Logger } from '@cofferdam/telemetry'
import type { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  startManagedAgents,
  type ManagedAgentsDouble,
} from '../../../infra/doubles/managed-agents/managed-agents-double.ts'
import { environmentSchema, programVariables } from './config.ts'
import { connectControlPlane, type ControlPlane, type Item } from './control-plane.ts'
import { serveByProgram } from './on-work.ts'
import { pollEnvironment } from './poll-environment.ts'
import type { ServeDeps } from './serve-item.ts'
import { holdOf } from './session-holder.ts'

const SOON = { timeout: 15_000 }
const SDK = fileURLToPath(import.meta.resolve('@anthropic-ai/sdk'))

let double: ManagedAgentsDouble
let folder = ''
let logged: Record<string, unknown>[] = []
let redis: Redis

beforeEach(async () => {
  double = await startManagedAgents()
  folder = await mkdtemp(join(tmpdir(), 'on-work-'))
  await writeFile(file('key'), double.environmentKey)
  logged = []
  redis = inMemory()
})
afterEach(async () => {
  await double.close()
  await rm(folder, { recursive: true })
})

const file = (name: string): string => join(folder, name)
const text = (name: string): string => (existsSync(file(name)) ? readFileSync(file(name), 'utf8') : '')

/**
 * Redis in memory, as far as a session hold needs it here: to add a holder, read the last one, and remove
 * one.
 */
function inMemory(): Redis {
  const holders: string[] = []
  return {
    eval: async (_script: string, _keys: number, _key: string, mine: string) => holders.push(mine),
    lindex: async () => holders.at(-1) ?? null,
    lrem: async (_key: string, _count: number, mine: string) => holders.splice(holders.indexOf(mine), 1),
  } as unknown as Redis
}

const log = (facts: Record<string, unknown>, message: string): void => void logged.push({ ...facts, message })
const logger = { debug: log, info: log, warn: log, error: log } as unknown as Logger

async function program(source: string): Promise<string> {
  await writeFile(file('program'), source, { mode: 0o755 })
  return file('program')
}

const environmentOf = (settings: Record<string, unknown> = {}) =>
  environmentSchema.parse({
    id: double.environmentId,
    tenant_id: 'acme',
    key_file: file('key'),
    base_url: double.url,
    ...settings,
  })

async function claimed(settings: Record<string, unknown> = {}): Promise<{ item: Item; deps: Deps }> {
  const environment = environmentOf(settings)
  const plane: ControlPlane = await connectControlPlane(environment, 'test', logger)
  const { signal } = new AbortController()
  const item = await plane.poll(signal)
  if (item === null) throw new Error('there is no item')
  await plane.ack(item, signal)
  return { item, deps: { redis, environment, plane, logger } }
}
type Deps = Pick<ServeDeps, 'redis' | 'environment' | 'plane' | 'logger'>

const statesOf = (): string[] => (double.items[0]?.history ?? []).map(({ state }) => state)

/** Writes down its input and the variables that it was started with. */
const NOTES = `#!/usr/bin/env bash
cd "$(dirname "$0")"
cat >input
tr '\\0' '\\n' </proc/$$/environ | sort >variables
`

describe('a bash program', () => {
  it('gets the item on stdin, and no variable but those of ant and PATH, HOME, LANG', async () => {
    const session = double.createSession({ script: [{ idle: 'end_turn' }] })
    const { item, deps } = await claimed()
    await serveByProgram(item, await program(NOTES), deps).ended
    expect(JSON.parse(text('input'))).toEqual(item)
    expect(text('variables').trim().split('\n')).toEqual(
      Object.entries({
        ...programVariables(),
        ANTHROPIC_BASE_URL: double.url,
        ANTHROPIC_ENVIRONMENT_ID: double.environmentId,
        ANTHROPIC_SESSION_ID: session.id,
        ANTHROPIC_WORK_ID: item.id,
        ANTHROPIC_WORK_SECRET: item.secret ?? '',
      })
        .map(([name, value]) => `${name}=${value}`)
        .toSorted(),
    )
    expect(item.secret).toMatch(/^\S{20,}$/)
    expect(text('variables') + text('input')).not.toContain(double.environmentKey)
    expect(statesOf()).toEqual(['queued', 'starting', 'stopped'])
  })

  it('gets the environment key with on_work_key', async () => {
    double.createSession({ script: [{ idle: 'end_turn' }] })
    const { item, deps } = await claimed({ on_work_key: true })
    await serveByProgram(item, await program(NOTES), deps).ended
    expect(text('variables')).toContain(`ANTHROPIC_ENVIRONMENT_KEY=${double.environmentKey}\n`)
  })

  it('that fails is logged with its status and output, without secrets, and its item is stopped', async () => {
    double.createSession({ script: [{ idle: 'end_turn' }] })
    const { item, deps } = await claimed()
    const source = '#!/bin/bash\necho "with $ANTHROPIC_WORK_SECRET"; echo "no such pod" >&2; exit 3\n'
    await serveByProgram(item, await program(source), deps).ended
    expect(logged.map(({ line }) => line)).toEqual(expect.arrayContaining(['with [redacted]', 'no such pod']))
    expect(logged.find(({ message }) => message === 'the program of on_work failed')).toMatchObject({
      status: 3,
    })
    expect(JSON.stringify(logged)).not.toContain(item.secret)
    expect(statesOf()).toContain('stopped')
  })

  it('is asked to end, and can clean up', async () => {
    double.createSession({ script: [{ idle: 'end_turn' }] })
    const { item, deps } = await claimed()
    const source = `#!/bin/bash
cd "$(dirname "$0")"; trap 'echo cleaned >end; exit 0' TERM; echo up >start; sleep 300 & wait\n`
    const serving = serveByProgram(item, await program(source), deps)
    await vi.waitFor(() => expect(text('start')).toBe('up\n'), SOON)
    expect(statesOf()).not.toContain('stopped')
    serving.stop()
    await serving.ended
    expect(text('end')).toBe('cleaned\n')
    expect(statesOf()).toContain('stopped')
  })

  it('that does not end is killed with its children after the grace', async () => {
    double.createSession({ script: [{ idle: 'end_turn' }] })
    const { item, deps } = await claimed()
    const source = `#!/bin/bash
cd "$(dirname "$0")"; trap '' TERM; sleep 300 & echo "$! $$" >pids.new; mv pids.new pids; while :; do wait; sleep 1; done\n`
    const serving = serveByProgram(item, await program(source), deps, 200)
    await vi.waitFor(() => expect(text('pids')).not.toBe(''), SOON)
    serving.stop()
    await serving.ended
    const pids = text('pids').trim().split(' ').map(Number)
    expect(pids).toHaveLength(2)
    await vi.waitFor(() => expect(pids.filter(runs)).toEqual([]), SOON)
    expect(statesOf()).toContain('stopped')
  })

  it('that ends leaves no process behind', async () => {
    double.createSession({ script: [{ idle: 'end_turn' }] })
    const { item, deps } = await claimed()
    const source = '#!/bin/bash\ncd "$(dirname "$0")"; sleep 300 & echo $! >pids\n'
    await serveByProgram(item, await program(source), deps).ended
    await vi.waitFor(() => expect(runs(Number(text('pids')))).toBe(false), SOON)
  })

  it('that cannot be started leaves the item for its next holder', async () => {
    double.createSession({ script: [{ idle: 'end_turn' }] })
    const { item, deps } = await claimed()
    await serveByProgram(item, await program('#!/no/such/interpreter\n'), deps).ended
    expect(logged).toMatchObject([{ message: 'a work item failed', work_id: item.id }])
    expect(statesOf()).toEqual(['queued', 'starting'])
  })

  it('whose item another dispatcher serves meanwhile does not stop that item', async () => {
    double.createSession({ script: [{ idle: 'end_turn' }] })
    const { item, deps } = await claimed()
    const source = '#!/bin/bash\ncd "$(dirname "$0")"; echo up >start; until [ -e go ]; do sleep 0.05; done\n'
    const serving = serveByProgram(item, await program(source), deps)
    await vi.waitFor(() => expect(text('start')).toBe('up\n'), SOON)
    const { id: environmentId } = deps.environment
    holdOf(redis, { environmentId, sessionId: item.data.id, workId: item.id }).take()
    await writeFile(file('go'), '')
    await serving.ended
    expect(statesOf()).toEqual(['queued', 'starting'])
  })
})

/** Whether a process runs. A zombie counts as ended. */
function runs(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

describe('polling with on_work', () => {
  /** The SDK's worker as its documentation shows it: everything comes from the variables. */
  const worker = (): Promise<string> =>
    program(`#!${process.execPath}
const { Anthropic } = require(${JSON.stringify(SDK)})
new Anthropic({ logLevel: 'off' }).beta.environments.work
  .worker({ workdir: __dirname, maxIdleMs: 50 })
  .handleItem()
  .then(() => process.exit(0), (error) => { console.error(error); process.exit(1) })
`)

  it('lets the SDK’s worker serve sessions at once, with the secret of the item alone', async () => {
    const sessions = ['1', '2'].map((name) =>
      double.createSession({
        script: [bash(`echo ${name} >${name}; until [ -e 1 -a -e 2 ]; do sleep 0.05; done`)],
      }),
    )
    const polling = new AbortController()
    const polled = poll({ on_work: await worker(), max_sessions: 2 }, polling.signal)
    for (const session of sessions) await session.untilAnswered(1)
    await vi.waitFor(
      () => expect(double.items.map(({ history }) => history.at(-1)?.state)).toEqual(['stopped', 'stopped']),
      SOON,
    )
    polling.abort()
    await polled.ended
    await Promise.all([...polled.serving].map(({ ended }) => ended))
    expect(sessions.flatMap(({ results }) => [...results.values()].map(({ answers }) => answers))).toEqual([
      1, 1,
    ])
    const routes = double.requests.filter(({ credential }) => credential === 'environment_key')
    expect(new Set(routes.map(({ route }) => route))).toEqual(new Set(['work.poll', 'work.ack', 'work.stop']))
    expect(logged.filter(({ message }) => message !== 'the program of on_work wrote')).toEqual([])
  })

  it('does not claim items while the program cannot be run, and says so', async () => {
    double.createSession({ script: [{ idle: 'end_turn' }] })
    const polling = new AbortController()
    const polled = poll({ on_work: file('missing') }, polling.signal)
    await vi.waitFor(() => expect(polled.failure).toContain('cannot be run'), SOON)
    polling.abort()
    await polled.ended
    expect(statesOf()).toEqual(['queued'])
    expect(double.requests).toEqual([])
  })

  const bash = (command: string) => ({ tool_use: { name: 'bash', input: { command } } })
  const poll = (settings: Record<string, unknown>, signal: AbortSignal) =>
    pollEnvironment({
      client: {} as ServeDeps['client'],
      redis,
      environment: environmentOf(settings),
      workerId: 'test',
      logger,
      folder,
      scaler: null,
      signal,
    })
})
