/**
 * The `agentcore` backend: a session of Amazon Bedrock AgentCore Code Interpreter per sandbox. The service takes no image and gives no
 * channel, so that a small cell of ours is installed by the session's first call and answers requests. README.md says what it
 * isolates, what it costs and what it cannot.
 */
import {
  CofferdamError,
  refuseMissing,
  type Backend,
  type Probe,
  type Sandbox,
  type SandboxRef,
  type SandboxSpec,
  type WorkerId,
} from '@cofferdam/contract'
import type { z } from 'zod'
import { SILENT, type BackendDeps } from '../deps.ts'
import { createLeftBehind } from '../remote/left-behind.ts'
import { sessionLimits } from '../remote/session-entry.ts'
import { takeTurn } from '../remote/take-turn.ts'
import { adoptedIn } from './adopted.ts'
import { capabilitiesOf } from './capabilities.ts'
import { isGone, openFailure } from './classify-failure.ts'
import { agentcoreConfigSchema, type AgentcoreConfig } from './config.ts'
import { environmentFor, interpreterGone, configuredFirst, requireInterpreter } from './interpreters.ts'
import { createKeeper, stopKept, type WaitedFor } from './kept-session.ts'
import { createLocalRateGate } from './local-rate-gate.ts'
import { openSession, type OpenParts } from './open-session.ts'
import { AgentcoreSandbox } from './sandbox.ts'
import { createWarmSessions } from './warm-sessions.ts'
import { createDataPlane, type DataPlane, type Listed, type SessionPlace } from './data-plane.ts'
import { traceParentOf } from './trace-parent.ts'
import { jobLifeMs, LIFE_MARGIN_MS, LIFE_MS, warmLifeMs } from './session-life.ts'
import { isWarmName, ownedName, ownerIn } from './session-name.ts'

const LISTS_AT_ONCE = 4
const FIX =
  'Give the worker AWS credentials (backends.agentcore.credentials_file, or the SDK’s own chain) and a region; or try it with `cofferdam double agentcore`.'

/** Makes the backend; talks to nothing and loads no SDK before `probe` or `open`. */
export function createAgentcoreBackend(
  config: z.input<typeof agentcoreConfigSchema>,
  deps: BackendDeps = {},
  name = 'agentcore',
): Backend {
  const settings = agentcoreConfigSchema.parse(config)
  const logger = deps.logger ?? SILENT
  const left = createLeftBehind()
  const plane = createDataPlane(settings, deps.rate ?? createLocalRateGate())
  const service: DataPlane = {
    ...plane,
    stop: (id) => left.end(`${id.interpreter} ${id.session}`, () => plane.stop(id)),
  }
  const parts: OpenParts = { service, left, readyMs: settings.ready_timeout_ms, logger }
  const interpreters = configuredFirst(settings, deps.interpreters)
  const capabilities = capabilitiesOf(settings, deps.sessions !== undefined)
  const warm = createWarmSessions({
    ...parts,
    backend: name,
    prefix: settings.session_prefix,
    max: settings.warm_sessions,
    maxAgeMs: settings.warm_max_age_ms,
    lifeMs: warmLifeMs(settings, deps.sessions !== undefined),
    deps: deps.warm,
  })
  const adopted = deps.sessions === undefined ? null : adoptedIn(deps.sessions, name)
  /** Interpreters that this worker used: leftovers are looked for there too. */
  const used = new Set<string>()

  async function openJob(spec: SandboxSpec, interpreter: string, signal: AbortSignal): Promise<Sandbox> {
    const lifeMs = jobLifeMs(spec)
    const waited =
      spec.owner === deps.warm?.owner ? await warm.take(interpreter, Date.now() + lifeMs, signal) : null
    const wish = {
      interpreter,
      name: ownedName(settings.session_prefix, spec),
      seconds: Math.ceil(Math.min(lifeMs, LIFE_MS.most) / 1000),
      // Not of the attempt alone, which may be put off and come again: a token gives back what it made, also when that has ended.
      token: [spec.executionId, spec.attempt, spec.sandboxId],
      traceParent: traceParentOf(spec),
    }
    const session = waited?.session ?? (await openSession(parts, wish, signal))
    const end = async (): Promise<void> => void (await service.stop(session.id))
    if (signal.aborted) {
      await end()
      signal.throwIfAborted()
    }
    return sandboxOf(spec, { session, kept: null, warm: waited !== null, revoked: null, end })
  }

  async function openTurn(spec: SandboxSpec, interpreter: string, signal: AbortSignal): Promise<Sandbox> {
    if (deps.sessions === undefined)
      throw new CofferdamError('capability_missing', `${name} keeps no sessions.`)
    const keeping = {
      ...parts,
      registry: deps.sessions,
      backend: name,
      limits: sessionLimits(deps),
      prefix: settings.session_prefix,
      lifeMs: settings.kept_life_ms,
    }
    let isWarm = false
    const waited: WaitedFor = {
      adopted: adoptedIn(deps.sessions, name),
      async take(lastsUntilMs, until) {
        if (spec.owner !== deps.warm?.owner) return null
        const taken = await warm.take(interpreter, lastsUntilMs, until)
        isWarm = taken !== null
        return taken
      },
    }
    const turn = await takeTurn(createKeeper({ ...keeping, waited }, interpreter), spec, signal)
    return sandboxOf(spec, {
      session: turn.held,
      kept: { id: turn.entry.sessionId, fresh: turn.isFresh },
      warm: isWarm,
      revoked: turn.revoked,
      end: turn.end,
    })
  }

  const sandboxOf = (
    spec: SandboxSpec,
    turn: Pick<
      ConstructorParameters<typeof AgentcoreSandbox>[1],
      'session' | 'kept' | 'warm' | 'revoked' | 'end'
    >,
  ): Sandbox => {
    const handle = { interpreter: turn.session.id.interpreter, session: turn.session.id.session }
    const ref = { backend: name, id: spec.sandboxId, handle }
    return new AgentcoreSandbox(spec, {
      ...turn,
      name,
      ref,
      node: settings.node,
      callMaxMs: settings.call_max_ms,
    })
  }

  const known = async (): Promise<string[]> => {
    const { 'default-public': open, 'internal-only': closed } = settings.interpreters
    const all = [open, closed, ...used, ...((await deps.interpreters?.all?.()) ?? [])]
    return [...new Set(all.filter((id) => id !== undefined))]
  }

  async function keepKnown(): Promise<void> {
    try {
      for (const interpreter of (await known()).slice(0, settings.warm_sessions)) warm.keep(interpreter)
    } catch (error) {
      logger.warn({ err: error }, 'a warm slot did not start')
    }
  }

  /** Everything of this fleet's workers, in every interpreter that is known. */
  async function owned(): Promise<(Listed & { owner: WorkerId })[]> {
    const ids = await known()
    const found: Listed[] = []
    // A thousand interpreters are a thousand calls: few at once, so that none waits for its turn longer than anyone would.
    while (ids.length > 0) found.push(...(await Promise.all(ids.splice(0, LISTS_AT_ONCE).map(listed))).flat())
    return found.flatMap((one) => {
      const owner = ownerIn(settings.session_prefix, one.name)
      return owner === null ? [] : [{ ...one, owner }]
    })
  }

  /** A session that waited for this worker may be a turn's by now, which outlives it. */
  const withoutAdopted = async <T extends Listed>(one: T): Promise<T[]> =>
    isWarmName(one.name) && (await adopted?.has(one.name)) === true ? [] : [one]

  async function listed(interpreter: string): Promise<Listed[]> {
    try {
      return await service.list(interpreter)
    } catch (error) {
      // An interpreter that is gone has no sessions.
      if (isGone(error)) return []
      throw openFailure(error, 'list')
    }
  }

  return {
    name,
    isolation: 'microvm',
    capabilities,

    async probe(signal): Promise<Probe> {
      signal.throwIfAborted()
      try {
        const [interpreter] = await known()
        if (interpreter !== undefined) await service.ping(interpreter, signal)
        else if (deps.interpreters === undefined)
          return {
            ok: false,
            why: 'it knows no interpreter',
            fix: 'Set backends.agentcore.interpreters, or run cofferdam provision agentcore.',
          }
      } catch (error) {
        signal.throwIfAborted()
        const failure = openFailure(error, 'probe')
        return { ok: false, why: failure.message, fix: FIX }
      }
      return {
        ok: true,
        features: [
          'a microVM of Amazon Bedrock AgentCore per sandbox, 2 vCPU and 8 GB whatever a request asks for',
          'without network: the service’s SANDBOX mode, which still reaches S3 and the role’s own credentials; with network: its PUBLIC mode, past the worker’s proxy',
          'output while a program runs, where the service sends it ahead of the result; a program is stopped at its soft deadline from inside, and by its session’s end',
          `the service ends a session ${LIFE_MARGIN_MS / 1000} s after its hard deadline, should no worker do it`,
        ],
      }
    },

    prewarm() {
      if (settings.warm_sessions > 0) void keepKnown()
    },

    async open(spec, signal) {
      signal.throwIfAborted()
      refuseMissing(name, capabilities, spec)
      if (spec.reuse === 'session' && spec.limits.hard_timeout_ms > settings.call_max_ms)
        throw new CofferdamError(
          'capability_missing',
          `${name}: a program of a session ends within ${settings.call_max_ms} ms.`,
        )
      const environment = environmentFor(spec.network)
      const interpreter = await requireInterpreter(interpreters, spec.tenantId, environment)
      signal.throwIfAborted()
      used.add(interpreter)
      try {
        return await (spec.reuse === 'session' ? openTurn : openJob)(spec, interpreter, signal)
      } catch (error) {
        signal.throwIfAborted()
        throw await interpreterGone(error, interpreters, {
          tenantId: spec.tenantId,
          environment,
          interpreter,
        })
      }
    },

    async kill(ref) {
      return await service.stop(sessionIn(ref, name))
    },
    async sweep(owner) {
      const named = (await owned()).filter((one) => one.owner === owner)
      const left = (await Promise.all(named.map(withoutAdopted))).flat()
      const stopped = await Promise.all(left.map((one) => service.stop(one)))
      return { destroyed: stopped.filter(Boolean).length }
    },
    async owners() {
      // Whoever looks for what others left, as each worker does twice a minute, ends what it left itself.
      await left.endAll()
      return [...new Set((await owned()).map(({ owner }) => owner))]
    },
    async endSession(_name, entry) {
      return await stopKept(parts, entry.handle)
    },
    async [Symbol.asyncDispose]() {
      await warm.close()
      service.close()
    },
  }
}

function sessionIn(ref: SandboxRef, name: string): SessionPlace {
  const { interpreter, session } = ref.handle
  if (typeof interpreter === 'string' && typeof session === 'string' && /^[0-9a-zA-Z]{1,40}$/.test(session))
    return { interpreter, session }
  throw new CofferdamError('invalid_request', `${name}: the ref of ${ref.id} names no session.`)
}

/** What the registry calls. */
export const createBackend = (config: AgentcoreConfig, deps: BackendDeps, name: string): Backend =>
  createAgentcoreBackend(config, deps, name)
