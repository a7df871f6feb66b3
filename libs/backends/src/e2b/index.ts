/**
 * The `e2b` backend: a Firecracker machine of E2B (or of a service that speaks its API) per sandbox, our guest agent
 * inside, its frames over envd's process stream. README.md says what it isolates, what it costs and what it cannot.
 */
import { readFile } from 'node:fs/promises'
import {
  CofferdamError,
  isCofferdamError,
  refuseMissing,
  type Backend,
  type Capabilities,
  type Probe,
  type SandboxSpec,
  type WorkerId,
} from '@cofferdam/contract'
import type { z } from 'zod'
import { SILENT, type BackendDeps } from '../deps.ts'
import { createLeftBehind } from '../remote/left-behind.ts'
import { RemoteSandbox } from '../remote/remote-sandbox.ts'
import type { RemoteSlot } from '../remote/remote-slot.ts'
import { remoteWarm } from '../remote/remote-warm.ts'
import { sessionLimits } from '../remote/session-entry.ts'
import { sessionPlace } from '../remote/session-place.ts'
import { takeTurn } from '../remote/take-turn.ts'
import { createWarmth, type Place, type WarmDeps } from '../warm/index.ts'
import { e2bConfigSchema, type E2bConfig } from './config.ts'
import { createControlApi, type ControlApi } from './control-api.ts'
import { InterpreterSandbox } from './interpreter-sandbox.ts'
import { createKeeper, endKept, IDLE_MS } from './kept-session.ts'
import { OWNER, startSlot } from './start-slot.ts'

/** Beyond the hard deadline: the worker ends a sandbox itself, the vendor's clock is for workers that died. */
const LIFE_MARGIN_MS = 30_000
const FIX =
  'Put an API key of e2b.dev/dashboard into a file that the worker can read, and name it as backends.e2b.api_key_file; or try it with `cofferdam double e2b`.'

/** Makes the backend; talks to nothing before `probe` or `open`. `config` takes its defaults from the schema. */
export function createE2bBackend(
  config: z.input<typeof e2bConfigSchema>,
  deps: BackendDeps = {},
  name = 'e2b',
): Backend {
  const settings = e2bConfigSchema.parse(config)
  const logger = deps.logger ?? SILENT
  const origin = settings.api_url ?? `https://api.${settings.domain}`
  const apiKey = (): Promise<string> => readKey(settings.api_key_file)
  const left = createLeftBehind()
  const control = createControlApi({ origin, apiKey, timeoutMs: settings.api_timeout_ms })
  const api: ControlApi = {
    ...control,
    kill: (id) => left.end(id, () => control.kill(id), { endsAtMs: Date.now() + settings.max_life_ms }),
  }
  const parts = { api, left, config: settings, logger }
  const warmth = createWarmth<RemoteSlot>({
    backend: name,
    start: (spec, signal) => startSlot(parts, spec, { [OWNER]: spec.owner }, signal),
    // A machine that waits is paid for.
    deps: deps.warm === undefined ? null : withoutPools(remoteWarm(deps.warm)),
    logger,
  })
  const capabilities = capabilitiesOf(settings, deps)

  async function ownPlace(spec: SandboxSpec, signal: AbortSignal): Promise<Place<RemoteSlot>> {
    const place = await warmth.take(spec, signal)
    try {
      await place.slot.keep(spec.limits.hard_timeout_ms + LIFE_MARGIN_MS)
      signal.throwIfAborted()
      return place
    } catch (error) {
      await place.end(true)
      throw isCofferdamError(error) && error.code === 'sandbox_lost'
        ? new CofferdamError('sandbox_open_failed', `${name}: the sandbox was gone before it was used`, {
            cause: error,
          })
        : error
    }
  }

  const keeper =
    deps.sessions === undefined
      ? null
      : createKeeper({
          ...parts,
          backend: name,
          registry: deps.sessions,
          limits: sessionLimits(deps, IDLE_MS),
          marginMs: LIFE_MARGIN_MS,
        })

  async function turnIn(spec: SandboxSpec, signal: AbortSignal): Promise<Place<RemoteSlot>> {
    if (keeper === null) throw new CofferdamError('capability_missing', `${name} keeps no sessions.`)
    const turn = await takeTurn(keeper, spec, signal)
    return sessionPlace(turn, turn.held)
  }

  return {
    name,
    isolation: 'microvm',
    capabilities,

    async probe(signal): Promise<Probe> {
      signal.throwIfAborted()
      try {
        await api.ping(signal)
      } catch (error) {
        signal.throwIfAborted()
        const why = isCofferdamError(error) ? error.message : String(error)
        return { ok: false, why, fix: FIX }
      }
      return {
        ok: true,
        features: [
          `a microVM from template ${settings.template} per sandbox, without internet access of its own and closed to strangers`,
          `its control API at ${origin}, its sandboxes at ${settings.sandbox_url ?? `https://<port>-<id>.${settings.domain}`}`,
          'network by the worker’s proxy over the agent’s channel, with the same rules as everywhere',
          'memory, CPU and disk are the template’s; CPU time and peak memory by the agent’s word',
          `the vendor ends a sandbox ${LIFE_MARGIN_MS / 1000} s after its hard deadline, should no worker do it`,
        ],
      }
    },

    async open(spec, signal) {
      signal.throwIfAborted()
      refuseMissing(name, capabilities, spec)
      const place = await (spec.session === null ? ownPlace : turnIn)(spec, signal)
      const Made = settings.code_interpreter ? InterpreterSandbox : RemoteSandbox
      return new Made({ name, isolation: 'microvm', measures: capabilities.measures }, spec, place)
    },

    async kill(ref) {
      const { sandbox } = ref.handle
      if (typeof sandbox !== 'string' || !/^[A-Za-z0-9-]{1,64}$/.test(sandbox))
        throw new CofferdamError('invalid_request', `${name}: the ref of ${ref.id} names no sandbox.`)
      return await api.kill(sandbox)
    },
    async sweep(owner) {
      const left = await api.list({ [OWNER]: owner })
      const killed = await Promise.all(left.map(({ sandboxID }) => api.kill(sandboxID)))
      return { destroyed: killed.filter(Boolean).length }
    },
    async owners() {
      await left.endAll()
      const all = await api.list({})
      return [...new Set(all.flatMap(({ metadata }) => metadata?.[OWNER] ?? []))] as WorkerId[]
    },
    endSession: (_name, entry) => endKept(api, entry.handle),
    [Symbol.asyncDispose]: () => warmth.close(),
  }
}

const withoutPools = (warm: WarmDeps): WarmDeps => ({
  ...warm,
  config: { ...warm.config, pools: { ...warm.config.pools, enabled: false } },
})

function capabilitiesOf(settings: E2bConfig, deps: BackendDeps): Capabilities {
  return {
    languages: settings.languages,
    programs: ['script', 'command'],
    network: ['none', 'public', 'allow'],
    // A kernel gives its programs none.
    stdin: !settings.code_interpreter,
    files: true,
    artifacts: true,
    streaming: true,
    // The agent is one process among others of its user there: it could not prove that files alone are left.
    sessions: deps.sessions === undefined ? [] : ['interpreter'],
    preloads: [],
    value: true,
    interrupt: true,
    remote: true,
    maxMs: settings.max_life_ms - LIFE_MARGIN_MS,
    enforces: [],
    // The kernel is no child of the agent.
    measures: settings.code_interpreter ? ['wall_ms'] : ['cpu_ms', 'peak_memory_bytes', 'wall_ms'],
  }
}

async function readKey(file: string | undefined): Promise<string> {
  if (file === undefined)
    throw new CofferdamError('backend_unavailable', 'E2B: api_key_file is not set in backends.e2b.')
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new CofferdamError('backend_unavailable', `E2B: the key file ${file} cannot be read.`, {
      cause: error,
    })
  })
  const key = text.trim()
  // Not quoted: whatever stands there is meant to be a secret.
  if (!/^[\x21-\x7e]{8,512}$/.test(key))
    throw new CofferdamError('backend_unavailable', `E2B: ${file} holds no API key.`)
  return key
}

/** What the registry calls. */
export const createBackend = (config: E2bConfig, deps: BackendDeps, name: string): Backend =>
  createE2bBackend(config, deps, name)
