/**
 * The `e2b` backend: one Firecracker machine of E2B (or a compatible service) per sandbox, with our guest
 * agent, whose frames use envd's process stream. README.md says what it isolates, costs and cannot do.
 */
import { readFile } from 'node:fs/promises'
import {
  CofferdamError,
  isCofferdamError,
  refuseMissing,
  unlessAborted,
  type Backend,
  type Capabilities,
  type Probe,
  type SandboxSpec,
  type SessionScope,
  type WorkerId,
} from '@cofferdam/contract'
import type { z } from 'zod'
import { GuestSandbox, SILENT, type BackendDeps } from '@cofferdam/sandbox/backend'
import {
  bindTurn,
  createLeftBehind,
  type RemoteSlot,
  remoteWarm,
  sessionLimits,
  takeOwnSlot,
  takeTurn,
  type LeftBehind,
} from '@cofferdam/backend-remote'
import { createWarmth, type BoundSlot, type WarmDeps } from '@cofferdam/sandbox/warm'
import { e2bConfigSchema, type E2bConfig } from './config.ts'
import { createControlApi, type ControlApi } from './control-api.ts'
import { OWNER } from './create-sandbox.ts'
import { InterpreterSandbox } from './interpreter-sandbox.ts'
import { createKeeper, endKept, IDLE_MS } from './kept-session.ts'
import { startSlot } from './start-slot.ts'

/**
 * Added to the hard deadline. A live worker ends its sandboxes itself, so this only matters if the worker
 * died.
 */
const LIFE_MARGIN_MS = 30_000
const FIX =
  'Put an API key of e2b.dev/dashboard into a file that the worker can read, and name it as backends.e2b.api_key_file; or try it with `cofferdam double e2b`.'

/** Makes no request before `probe` or `open`. The schema fills in defaults of `config`. */
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
  const api = withProvenKills(control, left, settings.max_life_ms)
  const parts = { api, left, config: settings, logger }
  const warmth = createWarmth<RemoteSlot>({
    backend: name,
    start: (spec, signal) =>
      startSlot(parts, spec, { metadata: { [OWNER]: spec.owner }, isJailed: false }, signal),
    // A waiting machine costs money.
    deps: deps.warm === undefined ? null : withoutPools(remoteWarm(deps.warm)),
    logger,
    onLeft: deps.onLeft,
  })
  const capabilities = capabilitiesOf(settings, deps)

  const ownOf = async (spec: SandboxSpec, signal: AbortSignal): Promise<BoundSlot<RemoteSlot>> =>
    await takeOwnSlot(warmth, spec, spec.limits.hard_timeout_ms + LIFE_MARGIN_MS, signal)

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

  async function turnIn(spec: SandboxSpec, signal: AbortSignal): Promise<BoundSlot<RemoteSlot>> {
    if (keeper === null) throw new CofferdamError('capability_missing', `${name} keeps no sessions.`)
    const turn = await takeTurn(keeper, spec, signal)
    return bindTurn(turn, turn.held)
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
      const bound = await (spec.session === null ? ownOf : turnIn)(spec, signal)
      const Made = settings.code_interpreter ? InterpreterSandbox : GuestSandbox
      return new Made({ name, isolation: 'microvm', capabilities }, spec, bound)
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
    // After an abort the kill goes on and is remembered until it is confirmed.
    endSession: async (_name, entry, signal) => {
      signal.throwIfAborted()
      return await unlessAborted(endKept(api, entry.handle), signal)
    },
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
    // Programs in a kernel have no stdin.
    stdin: !settings.code_interpreter,
    files: true,
    artifacts: true,
    streaming: true,
    sessions: deps.sessions === undefined ? [] : scopesOf(settings),
    preloads: [],
    value: true,
    interrupt: true,
    remote: true,
    maxMs: settings.max_life_ms - LIFE_MARGIN_MS,
    enforces: [],
    // The kernel is not a child of the agent, so the agent cannot measure its CPU time and memory.
    measures: settings.code_interpreter ? ['wall_ms'] : ['cpu_ms', 'peak_memory_bytes', 'wall_ms'],
  }
}

/** The agent cannot see into a kernel, so nothing can prove that only files are left. */
const scopesOf = (settings: E2bConfig): SessionScope[] =>
  settings.code_interpreter ? ['interpreter'] : ['files', 'interpreter']

/** Entry point of the backend registry. */
export const createBackend = (config: E2bConfig, deps: BackendDeps, name: string): Backend =>
  createE2bBackend(config, deps, name)

/**
 * The account's key, read for each call because it may be rotated. Throws `backend_unavailable`, which never
 * quotes the file's content.
 */
async function readKey(file: string | undefined): Promise<string> {
  if (file === undefined)
    throw new CofferdamError('backend_unavailable', 'E2B: api_key_file is not set in backends.e2b.')
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new CofferdamError('backend_unavailable', `E2B: the key file ${file} cannot be read.`, {
      cause: error,
    })
  })
  const key = text.trim()
  // Never quote the content: it is probably a secret.
  if (!/^[\x21-\x7e]{8,512}$/.test(key))
    throw new CofferdamError('backend_unavailable', `E2B: ${file} holds no API key.`)
  return key
}

/**
 * For this long, a 404 does not prove that a new sandbox is gone: an overloaded service may answer so. E2B
 * documents no limit.
 */
const YOUNG_MS = 30_000

/**
 * Wraps the API: repeats a kill until the service has confirmed it. `left` remembers kills until the sandbox
 * is gone or its longest life is over.
 */
function withProvenKills(control: ControlApi, left: LeftBehind, maxLifeMs: number): ControlApi {
  /** Recently created sandboxes that are not known to be gone, oldest first. */
  const youngUntilMs = new Map<string, number>()

  return {
    ...control,
    async create(wish, signal) {
      const created = await control.create(wish, signal)
      const nowMs = Date.now()
      for (const [id, untilMs] of youngUntilMs) if (untilMs <= nowMs) youngUntilMs.delete(id)
      youngUntilMs.set(created.sandboxID, nowMs + YOUNG_MS)
      return created
    },
    async kill(id) {
      const end = (comesUntilMs: number): Promise<boolean> =>
        left.end(id, () => control.kill(id), { comesUntilMs, endsAtMs: Date.now() + maxLifeMs })
      const isYoungUntilMs = youngUntilMs.get(id)
      const wasKilled = await end(0)
      youngUntilMs.delete(id)
      return wasKilled || isYoungUntilMs === undefined ? wasKilled : await end(isYoungUntilMs)
    },
  }
}
