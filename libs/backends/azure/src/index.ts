/**
 * The `azure` backend. Each sandbox is a dynamic session of Azure Container Apps with our guest agent. In a
 * custom container, plain requests carry the agent's frames. In an interpreter pool, executions of the
 * service carry them.
 */
import {
  CofferdamError,
  inTime,
  isCofferdamError,
  refuseMissing,
  type Backend,
  type Capabilities,
  type Probe,
  type WorkerId,
} from '@cofferdam/contract'
import type { z } from 'zod'
import { GuestSandbox, SILENT, type BackendDeps } from '@cofferdam/sandbox/backend'
import { sessionLimits } from '@cofferdam/backend-remote'
import { azureConfigSchema, type AzureConfig } from './config.ts'
import { createCredentials, type ManagedIdentity } from './credentials.ts'
import { createExecutions, LONGEST_MS } from './dialects.ts'
import { createFleetPoolBackend, type FleetPool } from './fleet-pool.ts'
import { createIdentifiers, identifierOf, ownerOf } from './identifier.ts'
import { takeSlot, type TakeParts } from './take-slot.ts'
import { createPoolApi } from './pool-api.ts'
import { createSessionsAtPool } from './sessions-at-pool.ts'
import { warnOfLeft } from './start-slot.ts'
import { createTokens, SESSIONS_AUDIENCE } from './tokens.ts'

const ISOLATION = 'microvm'
/**
 * A stopping worker waits this long for the repeated ends of sessions (ending-sessions.ts). The cooldown ends
 * the rest.
 */
const LAST_ENDS_MS = 3000
const FIX =
  'Set backends.azure: enabled, container_endpoint or interpreter_endpoint (the pool’s ' +
  'poolManagementEndpoint) and identifier_secret_file; grant "Azure ContainerApps Session Executor" on ' +
  'the pool; or try it with `cofferdam double azure`.'

export interface AzureDeps extends BackendDeps {
  /** This worker's own identity. It takes precedence over the identity in the settings. */
  identity?: ManagedIdentity
  /** The pool of the fleet's configuration. Without it, the backend uses only the pool in its settings. */
  fleetPool?: FleetPool
}

/** Makes no request until a method is called. The schema fills in defaults of `config`. */
export function createAzureBackend(
  config: z.input<typeof azureConfigSchema> = {},
  deps: AzureDeps = {},
  name = 'azure',
): Backend {
  const settings = azureConfigSchema.parse(config)
  const endpoint = settings.container_endpoint ?? settings.interpreter_endpoint
  const kind = settings.container_endpoint === undefined ? 'interpreter' : 'container'
  const { logger = SILENT } = deps
  const tokens = createTokens(createCredentials(settings, deps.identity))
  const identifiers = createIdentifiers(settings.identifier_secret_file)
  const api = createPoolApi({
    endpoint: endpoint ?? 'https://unset.invalid',
    kind,
    tokens,
    timeoutMs: settings.api_timeout_ms,
    roleGrantedAtMs: settings.role_granted_at === undefined ? null : Date.parse(settings.role_granted_at),
    onUnended: (identifier, error) => warnOfLeft(logger, identifier, error),
  })
  const executions = kind === 'container' ? null : createExecutions(api, settings)
  const atPool = createSessionsAtPool(api, kind)
  const preloads = deps.warm?.config.preload ?? {}
  const parts: TakeParts = {
    backend: name,
    config: settings,
    api,
    atPool,
    executions,
    identifiers,
    sessions: deps.sessions ?? null,
    limits: sessionLimits(deps, settings.idle_ms),
    preloads,
    logger,
    onLeft: deps.onLeft,
  }
  const capabilities = capabilitiesOf(settings, kind, deps.sessions !== undefined, Object.keys(preloads))

  /** Throws if the backend is not enabled, which is the default, or lacks an endpoint or the secret. */
  async function refuseUnset(): Promise<void> {
    if (!settings.enabled)
      throw new CofferdamError('backend_unavailable', 'Azure: backends.azure is not enabled.')
    if (endpoint === undefined)
      throw new CofferdamError(
        'backend_unavailable',
        'Azure: neither container_endpoint nor interpreter_endpoint is set.',
      )
    // Throws if there is no secret.
    await identifiers.ofSession('')
  }

  return {
    name,
    isolation: ISOLATION,
    capabilities,

    async probe(signal): Promise<Probe> {
      signal.throwIfAborted()
      try {
        await refuseUnset()
        await atPool.list(signal)
      } catch (error) {
        signal.throwIfAborted()
        return { ok: false, why: isCofferdamError(error) ? error.message : String(error), fix: FIX }
      }
      return {
        ok: true,
        features: [
          kind === 'container'
            ? 'a session of a custom-container pool per sandbox, in a Hyper-V machine of its own; the ' +
              'agent’s frames over plain requests'
            : `a session of a ${settings.interpreter} pool per sandbox, in a Hyper-V machine of its own; the agent’s frames by executions${settings.detached ? ', the agent living on between them' : ''}`,
          `token by ${tokens.answeredBy ?? 'nobody'} for ${SESSIONS_AUDIENCE}`,
          ...(executions === null
            ? []
            : [
                `executions in dialect ${executions.dialect}, ${executions.outputMax} characters of output each`,
              ]),
          'memory, CPU and disk are the pool’s; CPU time and peak memory by the agent’s word',
          `the service ends a session ${settings.cooldown_ms / 1000} s after its last call, should no worker do it`,
        ],
      }
    },

    async open(spec, signal) {
      signal.throwIfAborted()
      await refuseUnset()
      refuseMissing(name, capabilities, spec)
      const bound = await takeSlot(parts, spec, signal)
      return new GuestSandbox({ name, isolation: ISOLATION, capabilities }, spec, bound)
    },

    async kill(ref) {
      const identifier = await identifierOf(identifiers, ref.handle)
      if (identifier === null)
        throw new CofferdamError('invalid_request', `${name}: the ref of ${ref.id} names no session.`)
      return await atPool.end(identifier)
    },
    async sweep(owner) {
      const left = (await ours()).filter((session) => session.owner === owner)
      const ended = await Promise.all(left.map(({ identifier }) => atPool.end(identifier)))
      return { destroyed: ended.filter(Boolean).length }
    },
    async owners() {
      return [...new Set((await ours()).map(({ owner }) => owner))]
    },
    async endSession(_name, entry) {
      const identifier = await identifierOf(identifiers, entry.handle)
      return identifier === null ? false : await atPool.end(identifier)
    },
    async [Symbol.asyncDispose]() {
      await inTime(api.settle(), LAST_ENDS_MS, () => new Error('not answered')).catch(() => undefined)
    },
  }

  async function ours(): Promise<{ identifier: string; owner: WorkerId }[]> {
    const all = await atPool.list()
    return all.flatMap((identifier) => {
      const owner = ownerOf(identifier)
      return owner === null ? [] : [{ identifier, owner }]
    })
  }
}

function capabilitiesOf(
  settings: AzureConfig,
  kind: 'container' | 'interpreter',
  hasRegistry: boolean,
  preloads: readonly string[],
): Capabilities {
  const isLive = kind === 'container' || settings.detached
  return {
    languages:
      settings.languages ??
      (kind === 'container' ? ['python', 'javascript', 'typescript', 'bash'] : ['python', 'bash']),
    programs: ['script', 'command'],
    // An interpreter pool offers no network: executions would have to carry each connection, at some hundred
    // KiB per second.
    network: kind === 'container' ? ['none', 'public', 'allow'] : ['none'],
    stdin: true,
    files: true,
    artifacts: true,
    streaming: isLive,
    sessions: isLive && hasRegistry ? ['files', 'interpreter'] : [],
    preloads,
    value: true,
    interrupt: isLive,
    remote: true,
    maxMs: isLive ? null : LONGEST_MS,
    enforces: [],
    measures: ['cpu_ms', 'peak_memory_bytes', 'wall_ms'],
  }
}

/** Creates the backend for the registry. If the settings name no pool, it follows the fleet's pool. */
export function createBackend(config: AzureConfig, deps: AzureDeps, name: string): Backend {
  const { fleetPool, logger = SILENT } = deps
  const at = (endpoint = config.interpreter_endpoint): Backend =>
    createAzureBackend({ ...config, interpreter_endpoint: endpoint }, deps, name)
  const namesPool = (config.container_endpoint ?? config.interpreter_endpoint) !== undefined
  return fleetPool === undefined || namesPool ? at() : createFleetPoolBackend(at, fleetPool, logger)
}

export type { FleetPool } from './fleet-pool.ts'
