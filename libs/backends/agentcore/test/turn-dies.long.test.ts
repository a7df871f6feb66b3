/**
 * Kills the worker of a turn at AgentCore in each phase. The program ran once or not at all. The next worker
 * gets the session or a fresh one, but never one whose turn did not end, and nothing is left afterwards.
 */
import { randomUUID } from 'node:crypto'
import { newWorkerId, type SandboxSpec } from '@cofferdam/contract'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { startAgentcoreDouble } from '../double/agentcore-double.ts'
import type { Fault } from '../double/faults.ts'
import { createAgentcoreBackend } from '../src/index.ts'
import { AT_MOST, describeAgentcore, effectsIn, FLEET, IDS, KEYS } from './at-double.ts'
import { killWorker } from './worker-killed.ts'
import { redisSessions, type TestSessions, jobSpec, printed, python } from '@cofferdam/backend-remote/testing'

interface Phase {
  /** Whether a kept session exists before the turn of the killed worker. */
  isKept?: boolean
  /** The first call of this operation takes effect after the worker's death. */
  held?: Fault['operation']
  /** Whether the program keeps running. */
  holds?: boolean
  isReached(said: string, operations: readonly string[]): boolean
  /** The program's effect that the next worker sees. */
  effect: RegExp
  /** Whether the next worker gets a fresh session; null if the kill may come before or after. */
  fresh: boolean | null
}

const PHASES: Record<string, Phase> = {
  'before it hears of its session': {
    held: 'StartCodeInterpreterSession',
    isReached: (_said, operations) => operations.includes('StartCodeInterpreterSession'),
    effect: /^$/,
    fresh: true,
  },
  'before its session is ready': {
    held: 'InvokeCodeInterpreter',
    isReached: (_said, operations) => operations.includes('InvokeCodeInterpreter'),
    effect: /^$/,
    fresh: true,
  },
  'while it attaches to one': {
    isKept: true,
    held: 'InvokeCodeInterpreter',
    isReached: (_said, operations) => operations.includes('InvokeCodeInterpreter'),
    effect: /^$/,
    fresh: false,
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

describeAgentcore('a turn at agentcore', (at) => {
  let sessions: TestSessions
  beforeAll(async () => {
    sessions = await redisSessions()
  })
  afterAll(async () => {
    await sessions[Symbol.asyncDispose]()
  })

  it.concurrent.each(Object.entries(PHASES))(
    'runs its program at most once and leaves nothing if its worker is killed %s',
    { timeout: 180_000 },
    async (_when, phase) => {
      await using double = await startAgentcoreDouble({ ratePerSecond: 1000, secrets: KEYS })
      double.previews = true
      const interpreters = { 'internal-only': IDS['internal-only'] }
      const settings = at.settings({ endpoint: double.origin, interpreters })
      const next = createAgentcoreBackend(settings, { sessions })
      const key = randomUUID()
      const name = { tenantId: 't', backend: 'agentcore', key }
      const source = `open("effect", "a").write("x")\nprint("up", flush=True)\n${phase.holds === true ? 'import time\ntime.sleep(600)' : ''}`
      const spec = (program = python(source)): SandboxSpec => ({
        ...jobSpec(FLEET, program),
        owner: newWorkerId(FLEET),
        reuse: 'session',
        session: { key, scope: 'interpreter', idleMs: null },
      })
      const open = async () => await next.open(spec(), AbortSignal.timeout(120_000))
      try {
        if (phase.isKept === true) await (await open())[Symbol.asyncDispose]()
        const calls = double.calls.length
        const dead = Promise.withResolvers<undefined>()
        const { held } = phase
        double.fault(
          ...(held === undefined ? [] : [{ operation: held, kind: 'delay', until: dead.promise } as const]),
        )
        const operations = (): string[] => double.calls.slice(calls).map(({ operation }) => operation)
        const given = { settings, spec: spec(), redisUrl: sessions.url }
        await killWorker(given, (said) => phase.isReached(said, operations()))
        dead.resolve(undefined)
        // Requests that the worker sent before its death may take effect afterwards.
        await vi.waitFor(() => expect(double.sessions.running()).toHaveLength(1), AT_MOST)
        expect(effectsIn(double.sessions.running())).toMatch(phase.effect)
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
    },
  )
})
