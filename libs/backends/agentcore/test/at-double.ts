/** Shared by the AgentCore backend's tests: a double with its keys, workers' backends, and cleanup. */
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Backend, Exit, Program, Sandbox, SandboxSpec } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { temporaryFolder } from '@cofferdam/embedded/testing'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { startAgentcoreDouble, type AgentcoreDouble } from '../double/agentcore-double.ts'
import type { Fault } from '../double/faults.ts'
import type { Session } from '../double/sessions.ts'
import { NODE } from '@cofferdam/backend-remote/double'
import { createAgentcoreBackend, type AgentcoreDeps } from '../src/index.ts'
import { jobSpec } from '@cofferdam/backend-remote/testing'

/** Generous, for a busy machine. No test waits for this time to pass. */
export const AT_MOST = { timeout: 60_000, interval: 20 }
export const FLEET = 'aceaceaceace'
export const IDS = { 'default-public': 'public-0123456789', 'internal-only': 'internal-0123456789' }

/** The worker's keys. No part of them may appear anywhere else. */
export const KEYS = {
  accessKeyId: 'AKIACANARYCANARY0001',
  secretAccessKey: 'canary/secret+of/the/worker/0123456789abcd',
  sessionToken: `IQoJcanary${'t0ken+of/the='.repeat(12)}`,
}

export type Settings = Parameters<typeof createAgentcoreBackend>[0]

export interface AtDouble {
  readonly double: AgentcoreDouble
  readonly folder: string
  /** Disposed after each test, in reverse order. */
  readonly opened: AsyncDisposable[]
  /** What the backends logged. */
  readonly logged: unknown[]
  settings: (change?: Partial<Settings>) => Settings
  backend: (change?: Partial<Settings>, deps?: AgentcoreDeps) => Backend
  open: (program: Program, change?: Partial<SandboxSpec>, by?: Backend) => Promise<Sandbox>
  sessionOf: (sandbox: Sandbox) => Session
  /** What its programs wrote into the file `effect`. */
  effect: (sandbox: Sandbox) => string
}

/** A `describe` with its own double, skipped on machines where the double's programs cannot run. */
export function describeAgentcore(what: string, suite: (at: AtDouble) => void): void {
  needs('bwrap').describe(what, () => {
    const folder = temporaryFolder('agentcore')
    const opened: AsyncDisposable[] = []
    const logged: unknown[] = []
    const log = (fields: object, message: string): void => void logged.push(fields, message)
    const logger = { debug: log, info: log, warn: log }
    let double: AgentcoreDouble

    beforeAll(async () => {
      writeKeys(join(folder, 'keys'))
      double = await startAgentcoreDouble({ ratePerSecond: 1000, secrets: KEYS })
    })
    afterEach(async () => {
      double.fault()
      double.previews = false
      for (const one of opened.splice(0).toReversed()) await one[Symbol.asyncDispose]()
      expect(
        double.sessions.running().map(({ name }) => name),
        'left at the service',
      ).toEqual([])
    })
    afterAll(async () => {
      await double[Symbol.asyncDispose]()
    })

    const settings: AtDouble['settings'] = (change = {}) => ({
      ...settingsFor(double, join(folder, 'keys')),
      ...change,
    })
    function backend(change: Partial<Settings> = {}, deps: AgentcoreDeps = {}): Backend {
      const made = createAgentcoreBackend(settings(change), { logger, ...deps })
      opened.push(made)
      return made
    }
    function sessionOf({ ref }: Sandbox): Session {
      const session = double.sessions.byId(String(ref.handle['session']))
      return session ?? expect.fail('the service never had its session')
    }
    suite({
      get double() {
        return double
      },
      folder,
      opened,
      logged,
      settings,
      backend,
      async open(program, change = {}, by = backend()) {
        const sandbox = await by.open({ ...jobSpec(FLEET, program), ...change }, AbortSignal.timeout(60_000))
        opened.push(sandbox)
        return sandbox
      },
      sessionOf,
      effect: (sandbox) => effectsIn([sessionOf(sandbox)]),
    })
  })
}

/** Settings of a worker that uses a double. */
export const settingsFor = (double: AgentcoreDouble, keys: string): Settings => ({
  region: 'eu-central-1',
  endpoint: double.origin,
  credentials_file: keys,
  interpreters: IDS,
  calls_per_second: 1000,
  node: NODE,
})

export function writeKeys(file: string, { accessKeyId, secretAccessKey, sessionToken } = KEYS): void {
  const keys = `aws_access_key_id = ${accessKeyId}\naws_secret_access_key=${secretAccessKey}\n`
  writeFileSync(
    file,
    `[other]\naws_access_key_id = none\n[default]\n${keys}aws_session_token = ${sessionToken}\n`,
  )
}

/** A fault of a call that runs something. */
export const invoke = (kind: Fault['kind'], more: Partial<Fault> = {}): Fault => ({
  operation: 'InvokeCodeInterpreter',
  kind,
  ...more,
})

/** Runs a program and returns its exit and output. */
export async function run(
  sandbox: Sandbox,
  program: Program,
  signal = AbortSignal.timeout(60_000),
): Promise<{ exit: Exit; stdout: string; stderr: string }> {
  const said = { stdout: '', stderr: '' }
  const exit = await sandbox.run(program, {
    onOutput: (stream, chunk) => void (said[stream] += Buffer.from(chunk).toString()),
    maxOutputBytes: { stdout: 1 << 20, stderr: 1 << 20 },
    signal,
  })
  return { exit, ...said }
}

/** The session's disk on this host. */
export const diskOf = ({ jail }: Session): string => dirname(dirname(jail.socket))

/** What programs wrote into the file `effect`, in each session. */
export const effectsIn = (sessions: readonly Session[]): string =>
  sessions
    .flatMap((session) => {
      const found = globSync(join(diskOf(session), 'home', '.cofferdam-*', 'work', 'effect'))
      return found.map((path) => readFileSync(path, 'utf8'))
    })
    .join('|')
