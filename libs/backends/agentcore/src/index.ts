/**
 * The `agentcore` backend: one session of Amazon Bedrock AgentCore Code Interpreter per sandbox. The service
 * takes no image and offers no channel, so the session's first call installs a small cell of ours that
 * answers requests. README.md says what the backend isolates, what it costs and what it cannot do.
 */
import {
  CofferdamError,
  refuseMissing,
  unlessAborted,
  type Backend,
  type Probe,
  type SandboxRef,
} from '@cofferdam/contract'
import type { z } from 'zod'
import { SILENT, type BackendDeps } from '@cofferdam/sandbox/backend'
import { namesInUse, createLeftBehind, type LeftBehind } from '@cofferdam/backend-remote'
import { capabilitiesOf } from './capabilities.ts'
import { openFailure } from './classify-failure.ts'
import { agentcoreConfigSchema, type AgentcoreConfig } from './config.ts'
import { createDataPlane, type DataPlane, type SessionPlace } from './data-plane.ts'
import {
  NAME_FIELD,
  watchForForgotten,
  type ForgottenParts,
  type ForgottenSessions,
} from './forgotten-sessions.ts'
import {
  configuredFirst,
  environmentFor,
  interpreterGone,
  requireInterpreter,
  type Interpreters,
} from './interpreters.ts'
import { stopKept } from './kept-session.ts'
import { createLocalRateGate } from './local-rate-gate.ts'
import { createSandboxOpener } from './open-sandbox.ts'
import type { OpenParts } from './open-session.ts'
import { createRunningSessions, ownedAmong } from './running-sessions.ts'
import { LIFE_MARGIN_MS, warmLifeMs } from './session-life.ts'
import { isKeptBy, isWarmName } from './session-name.ts'
import { createWarmSessions } from './warm-sessions.ts'

const FIX =
  'Give the worker AWS credentials (backends.agentcore.credentials_file, or the SDK’s own chain) and a region; or try it with `cofferdam double agentcore`.'

export interface AgentcoreDeps extends BackendDeps {
  /** Maps tenants to code interpreters. Without it, only interpreters of the configuration serve. */
  interpreters?: Interpreters
}

/** Makes no request and loads no SDK until a method needs the service. */
export function createAgentcoreBackend(
  config: z.input<typeof agentcoreConfigSchema>,
  deps: AgentcoreDeps = {},
  name = 'agentcore',
): Backend {
  const settings = agentcoreConfigSchema.parse(config)
  const logger = deps.logger ?? SILENT
  const left = createLeftBehind()
  const plane = createDataPlane(settings, deps.rate ?? createLocalRateGate())
  const service: DataPlane = { ...plane, stop: stopForGood(plane, left) }
  const parts: OpenParts = { service, left, readyMs: settings.ready_timeout_ms, logger }
  const interpreters = configuredFirst(settings, deps.interpreters)
  const capabilities = capabilitiesOf(settings, deps.sessions !== undefined)
  const running = createRunningSessions(service, settings.interpreters, deps.interpreters)
  const warm = createWarmSessions({
    ...parts,
    backend: name,
    prefix: settings.session_prefix,
    max: settings.warm_sessions,
    maxAgeMs: settings.warm_max_age_ms,
    lifeMs: warmLifeMs(settings, deps.sessions !== undefined),
    deps: deps.warm,
  })
  const forgotten = forgottenOf(settings, deps, { backend: name, service, logger })
  const openIn = createSandboxOpener({ ...parts, name, settings, deps, warm, forgotten })

  async function keepKnown(): Promise<void> {
    try {
      for (const interpreter of (await running.interpreters()).slice(0, settings.warm_sessions))
        warm.keep(interpreter)
    } catch (error) {
      logger.warn({ err: error }, 'a warm slot did not start')
    }
  }

  return {
    name,
    isolation: 'microvm',
    capabilities,

    async probe(signal): Promise<Probe> {
      signal.throwIfAborted()
      try {
        const [interpreter] = await running.interpreters()
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
      running.use(interpreter)
      try {
        return await openIn(spec, interpreter, signal)
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
      const named = ownedAmong(settings.session_prefix, await running.list()).filter(
        (one) => one.owner === owner,
      )
      // A warm session may be a kept session by now, and a kept session outlives its worker.
      const waited = named.some((one) => isWarmName(one.name))
      const kept =
        waited && deps.sessions !== undefined ? await namesInUse(deps.sessions, name, NAME_FIELD) : new Set()
      const left = named.filter((one) => !kept.has(one.name))
      const stopped = await Promise.all(left.map((one) => service.stop(one)))
      return { destroyed: stopped.filter(Boolean).length }
    },
    async owners() {
      // Called twice a minute. Also ends what this worker left behind and what belongs to nobody.
      await left.endAll()
      const all = await running.list()
      await forgotten?.stopAmong(all)
      return [...new Set(ownedAmong(settings.session_prefix, all).map(({ owner }) => owner))]
    },
    async endSession(_name, entry, signal) {
      signal.throwIfAborted()
      // The stop goes on after an abort: the session must end whether or not the caller waits.
      return await unlessAborted(stopKept(parts, entry.handle), signal)
    },
    async [Symbol.asyncDispose]() {
      await warm.close()
      service.close()
    },
  }
}

/** Ends sessions that the registry lost. Null without a registry or a worker's ID, which names its fleet. */
function forgottenOf(
  settings: AgentcoreConfig,
  { sessions: registry, warm }: BackendDeps,
  parts: Pick<ForgottenParts, 'backend' | 'service' | 'logger'>,
): ForgottenSessions | null {
  if (registry === undefined || warm === undefined) return null
  const isKept = (name: string): boolean => isKeptBy(settings.session_prefix, warm.owner, name)
  return watchForForgotten({ ...parts, registry, isKept, afterMs: settings.forgotten_after_ms })
}

function sessionIn(ref: SandboxRef, name: string): SessionPlace {
  const { interpreter, session } = ref.handle
  if (typeof interpreter === 'string' && typeof session === 'string' && /^[0-9a-zA-Z]{1,40}$/.test(session))
    return { interpreter, session }
  throw new CofferdamError('invalid_request', `${name}: the ref of ${ref.id} names no session.`)
}

/** Entry point of the backend registry. */
export const createBackend = (config: AgentcoreConfig, deps: AgentcoreDeps, name: string): Backend =>
  createAgentcoreBackend(config, deps, name)

export { interpretersFor, type Interpreters } from './interpreters.ts'

/**
 * For this long after Start, a stop that finds no session is repeated. For up to 3 s, an overloaded service
 * does not find a session that it has just started.
 */
const UNKNOWN_MS = 10_000

/** `DataPlane.stop` that remembers sessions that it could not stop, and repeats the stop later. */
function stopForGood({ stop }: Pick<DataPlane, 'stop'>, left: LeftBehind): DataPlane['stop'] {
  return async (id) => {
    const what = `${id.interpreter} ${id.session}`
    const comesUntilMs = (id.startedAtMs ?? 0) + UNKNOWN_MS
    const isStopped = await left.end(what, () => stop(id))
    if (isStopped || Date.now() >= comesUntilMs) return isStopped
    return await left.end(what, () => stop(id), { comesUntilMs })
  }
}
