/**
 * The `kubernetes` backend. Each sandbox is a pod of Agent Sandbox, claimed from a warm pool. Our guest agent
 * is its first process and sends frames over one TCP connection.
 */
import {
  CofferdamError,
  fleetOf,
  isCofferdamError,
  LANGUAGES,
  refuseMissing,
  SESSION_SCOPES,
  type Backend,
  type Capabilities,
  type Probe,
  type SandboxSpec,
} from '@cofferdam/contract'
import type { z } from 'zod'
import { GuestSandbox, SILENT, type BackendDeps } from '@cofferdam/sandbox/backend'
import { remoteWarm, sessionLimits, takeOwnSlot, type RemoteSlot } from '@cofferdam/backend-remote'
import { createWarmth, type BoundSlot } from '@cofferdam/sandbox/warm'
import { claimOf, createClaims } from './claims.ts'
import { kubernetesConfigSchema, type KubernetesConfig } from './config.ts'
import { createKeptSessions } from './kept-sessions.ts'
import { createKubeApi } from './kube-api.ts'
import { sessionKey } from './session-keys.ts'
import { startSlot } from './start-slot.ts'

/** Added to the hard deadline. The worker deletes its claims, so this only matters if the worker died. */
const LIFE_MARGIN_MS = 30_000
/** The longest time that a cell waits for its session's next execution (the bound of `session.idle_ms`). */
const WAIT_MS = 3_600_000

/** Makes no request before `probe` or `open`. The schema fills in defaults of `config`. */
export function createKubernetesBackend(
  config: z.input<typeof kubernetesConfigSchema> = {},
  deps: BackendDeps = {},
  name = 'kubernetes',
): Backend {
  const settings = kubernetesConfigSchema.parse(config)
  const logger = deps.logger ?? SILENT
  const claims = createClaims(createKubeApi(settings), settings, logger)
  const waitMs = deps.warm?.config.pools.max_age_ms ?? 0
  const warmth = createWarmth<RemoteSlot>({
    backend: name,
    start: (spec, signal) => startSlot({ claims, config: settings, waitMs }, spec, signal),
    deps: deps.warm === undefined ? null : remoteWarm(deps.warm),
    logger,
    onLeft: deps.onLeft,
  })
  const { isolation, session_secret_file: secretFile, runtime } = settings
  const kept =
    secretFile === null || deps.sessions === undefined || runtime !== 'cofferdam'
      ? null
      : createKeptSessions({
          backend: name,
          config: settings,
          secretFile,
          claims,
          registry: deps.sessions,
          preloads: warmth.preloadSets,
          limits: sessionLimits(deps),
          fleet: deps.warm === undefined ? null : fleetOf(deps.warm.owner),
          logger,
        })
  const capabilities = capabilitiesOf(settings, warmth.preloads)

  /** A pod for one execution, or a cell of this worker. */
  const ownOf = async (spec: SandboxSpec, signal: AbortSignal): Promise<BoundSlot<RemoteSlot>> => {
    const waitsMs = spec.reuse === 'job' ? 0 : WAIT_MS
    return await takeOwnSlot(warmth, spec, spec.limits.hard_timeout_ms + LIFE_MARGIN_MS + waitsMs, signal)
  }

  return {
    name,
    isolation,
    capabilities,

    async probe(signal): Promise<Probe> {
      signal.throwIfAborted()
      try {
        await claims.ping(signal)
        if (secretFile !== null) await sessionKey(secretFile, settings.namespace, '')
      } catch (error) {
        signal.throwIfAborted()
        return {
          ok: false,
          why: isCofferdamError(error) ? error.message : String(error),
          fix: `Install Agent Sandbox, then \`helm install\` infra/kubernetes/cofferdam/charts/sandboxes, which makes the pool "${settings.warm_pool}" and the rights in ${settings.namespace}.`,
        }
      }
      return {
        ok: true,
        features: [
          `a pod of ${settings.namespace}/${settings.warm_pool} per sandbox; isolation as its runtime class gives it, taken to be ${isolation}`,
          'memory, CPU, processes and disk are the template’s; network by the worker’s proxy over the ' +
            'agent’s channel',
          `the cluster deletes a claim ${LIFE_MARGIN_MS / 1000} s after its hard deadline, should no worker do it`,
          kept === null
            ? 'sessions end with their worker, for session_secret_file is not set'
            : 'any worker attaches to a session',
        ],
      }
    },
    prewarm() {
      warmth.prewarm()
    },
    async open(spec, signal) {
      signal.throwIfAborted()
      refuseMissing(name, capabilities, spec)
      const bound =
        kept !== null && spec.session !== null ? await kept.take(spec, signal) : await ownOf(spec, signal)
      return new GuestSandbox({ name, isolation, capabilities }, spec, bound)
    },
    async kill(ref) {
      const claim = claimOf(ref.handle)
      if (claim === null)
        throw new CofferdamError('invalid_request', `${name}: the ref of ${ref.id} names no claim.`)
      return await claims.release(claim)
    },
    async sweep(owner) {
      const left = await claims.list(owner)
      const released = await Promise.all(left.map(({ claim }) => claims.release(claim)))
      return { destroyed: released.filter(Boolean).length }
    },
    async owners() {
      await claims.endLeft()
      await kept?.endForgotten()
      return [...new Set((await claims.list(null)).map(({ owner }) => owner))]
    },
    ...(kept === null ? {} : { endSession: (_name, entry) => kept.end(entry) }),
    [Symbol.asyncDispose]: () => warmth.close(),
  }
}

function capabilitiesOf({ runtime, foreign }: KubernetesConfig, preloads: readonly string[]): Capabilities {
  const isOurs = runtime === 'cofferdam'
  return {
    languages: isOurs ? LANGUAGES : foreign.languages,
    programs: ['script', 'command'],
    network: ['none', 'public', 'allow'],
    stdin: true,
    files: true,
    artifacts: true,
    streaming: true,
    // In a foreign image other processes run as the agent's user, so the agent cannot prove a cell clean.
    sessions: isOurs ? SESSION_SCOPES : [],
    preloads,
    value: true,
    interrupt: true,
    remote: true,
    maxMs: null,
    // A running pod has the limits of its template. A request cannot change them.
    enforces: [],
    measures: ['cpu_ms', 'peak_memory_bytes', 'wall_ms'],
  }
}

/** Creates the backend for the registry. */
export const createBackend = (config: KubernetesConfig, deps: BackendDeps, name: string): Backend =>
  createKubernetesBackend(config, deps, name)
