/**
 * A turn at AgentCore whose worker is killed, in each of its phases: its program ran once or not at all, the next worker has the
 * session or a fresh one, never one whose turn did not end, and nothing is left when that one ends it.
 */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { newWorkerId, type SandboxSpec } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import {
  EXAMPLE_SECRETS,
  startAgentcoreDouble,
  type AgentcoreDouble,
} from '../../../infra/doubles/agentcore/agentcore-double.ts'
import type { Fault } from '../../../infra/doubles/agentcore/faults.ts'
import { missing, NODE } from '../../../infra/doubles/jail.ts'
import { createAgentcoreBackend } from '../src/agentcore/index.ts'
import type { DyingWorker } from './agentcore-worker-that-dies.ts'
import { redisSessions, type TestSessions } from './redis-sessions.ts'
import { jobSpec, printed, python } from './remote-run.ts'

const why = missing()
const DIES = fileURLToPath(new URL('agentcore-worker-that-dies.ts', import.meta.url))
/** A busy machine takes its time; nothing here waits for it to pass. */
const AT_MOST = { timeout: 60_000, interval: 20 }
interface Phase {
  /** Already there, at rest, when the worker that dies comes. */
  isKept?: boolean
  faults?: Fault[]
  /** Its program stays. */
  holds?: boolean
  isReached(said: string, operations: readonly string[]): boolean
  /** What of its program's effect is seen then. */
  effect: RegExp
  /** What the next worker gets; null where the kill may come before or after. */
  fresh: boolean | null
}

const late = (operation: Fault['operation']): Fault[] => [{ operation, kind: 'delay', ms: 1000 }]
const PHASES: Record<string, Phase> = {
  'before it hears of its session': {
    faults: late('StartCodeInterpreterSession'),
    isReached: (_said, operations) => operations.includes('StartCodeInterpreterSession'),
    effect: /^$/,
    fresh: true,
  },
  'before its session is ready': {
    faults: late('InvokeCodeInterpreter'),
    isReached: (_said, operations) => operations.includes('InvokeCodeInterpreter'),
    effect: /^$/,
    fresh: true,
  },
  'while it attaches to one': {
    isKept: true,
    faults: late('InvokeCodeInterpreter'),
    isReached: (_said, operations) => operations.includes('InvokeCodeInterpreter'),
    effect: /^$/,
    fresh: null,
  },
  'while its program runs': {
    holds: true,
    isReached: (said) => said.includes('up'),
    effect: /^x$/,
    fresh: true,
  },
  'while its program runs in one that was kept': {
    isKept: true,
    holds: true,
    isReached: (said) => said.includes('up'),
    effect: /^x$/,
    fresh: true,
  },
  'when its program has ended': {
    isReached: (said) => said.includes('ended'),
    effect: /^x$/,
    fresh: null,
  },
  'when its session rests': {
    isReached: (said) => said.includes('rests'),
    effect: /^x$/,
    fresh: false,
  },
}

describe.skipIf(why !== null && process.env['COFFERDAM_REQUIRE'] !== 'all')(
  `a turn at agentcore ${why ?? ''}`,
  { timeout: 180_000 },
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'cofferdam-agentcore-'))
    let sessions: TestSessions
    beforeAll(async () => {
      const { accessKeyId, secretAccessKey } = EXAMPLE_SECRETS
      writeFileSync(
        join(folder, 'keys'),
        `[default]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n`,
      )
      sessions = await redisSessions()
    })
    afterAll(async () => {
      await sessions[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true })
    })

    it.concurrent.each(Object.entries(PHASES))('whose worker is killed %s', async (_when, phase) => {
      await using double = await startAgentcoreDouble({ ratePerSecond: 1000 })
      double.previews = true
      const settings = {
        region: 'eu-central-1',
        endpoint: double.origin,
        credentials_file: join(folder, 'keys'),
        interpreters: { 'internal-only': 'internal-0123456789' },
        calls_per_second: 1000,
        node: NODE,
      }
      const next = createAgentcoreBackend(settings, { sessions })
      const key = randomUUID()
      const name = { tenantId: 't', backend: 'agentcore', key }
      const source = `open("effect", "a").write("x")\nprint("up", flush=True)\n${phase.holds === true ? 'import time\ntime.sleep(600)' : ''}`
      const spec = (program = python(source)): SandboxSpec => ({
        ...jobSpec('aceaceaceace', program),
        owner: newWorkerId('aceaceaceace'),
        reuse: 'session',
        session: { key, scope: 'interpreter', idleMs: null },
      })
      const open = async () => await next.open(spec(), AbortSignal.timeout(120_000))
      try {
        if (phase.isKept === true) await (await open())[Symbol.asyncDispose]()
        const calls = double.calls.length
        double.fault(...(phase.faults ?? []))
        await killed({ settings, spec: spec(), redisUrl: sessions.url }, (said) =>
          phase.isReached(
            said,
            double.calls.slice(calls).map(({ operation }) => operation),
          ),
        )
        // What was asked for before it died may be made after.
        await vi.waitFor(() => expect(double.sessions.running()).toHaveLength(1), AT_MOST)
        expect(effectsIn(double)).toMatch(phase.effect)
        const [left] = double.sessions.running()
        await sessions.expire(name)
        const sandbox = await open()
        const { fresh } = sandbox.session ?? {}
        if (phase.fresh !== null) expect(fresh).toBe(phase.fresh)
        expect(left?.ended).toBe(fresh === true ? 'stopped' : null)
        expect(await printed(sandbox, python('print("next")'))).toBe('next\n')
        await sandbox[Symbol.asyncDispose]()
        const entry = await sessions.find(name)
        if (entry === null) return expect.fail('it is not in the registry')
        expect(await next.endSession?.(name, entry, AbortSignal.timeout(60_000))).toBe(true)
        expect(double.sessions.running()).toEqual([])
      } finally {
        await next[Symbol.asyncDispose]()
      }
    })
  },
)

/** Runs the worker until it is there, and kills it. */
async function killed(given: DyingWorker, isThere: (said: string) => boolean): Promise<void> {
  const dying = spawn(process.execPath, [DIES, JSON.stringify(given)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(dying, 'exit')
  let said = ''
  dying.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()))
  try {
    await vi.waitFor(() => expect(isThere(said)).toBe(true), AT_MOST)
  } finally {
    dying.kill('SIGKILL')
    await ended
  }
}

/** What programs wrote in the sessions that run. */
const effectsIn = (double: AgentcoreDouble): string =>
  double.sessions
    .running()
    .flatMap(({ jail }) => {
      const root = dirname(dirname(jail.socket))
      return globSync('home/.cofferdam-*/*/effect', { cwd: root }).map((path) =>
        readFileSync(join(root, path), 'utf8'),
      )
    })
    .join('')
