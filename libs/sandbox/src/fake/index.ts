/**
 * The `fake` backend: scripted, instant, in this process. It runs no code but the language of steps.ts, so
 * that tests and benches of the layers above need no process. It exists only if the configuration names it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  CofferdamError,
  LANGUAGES,
  refuseMissing,
  type Backend,
  type Capabilities,
  type SandboxId,
  type WorkerId,
} from '@cofferdam/contract'
import type { BackendDeps } from '../deps.ts'
import { fakeConfigSchema, type FakeConfig } from './config.ts'
import { FakeSandbox } from './sandbox.ts'

export { fakeSource, type FakeStep } from './steps.ts'

const CAPABILITIES: Capabilities = {
  languages: LANGUAGES,
  programs: ['script', 'command'],
  network: ['none'],
  stdin: true,
  files: true,
  artifacts: true,
  streaming: true,
  sessions: [],
  preloads: [],
  value: true,
  interrupt: true,
  maxMs: null,
  enforces: [],
  measures: ['wall_ms'],
}

/** Defaults of `config` come from `fakeConfigSchema`. */
export function createFakeBackend(config: Partial<FakeConfig> = {}, name = 'fake'): Backend {
  const { open_ms: openMs, max_sandboxes: maxSandboxes } = fakeConfigSchema.parse(config)
  const live = new Map<SandboxId, { sandbox: FakeSandbox; owner: WorkerId }>()

  const destroy = async (ids: SandboxId[]): Promise<number> => {
    const found = ids.flatMap((id) => live.get(id) ?? [])
    for (const { sandbox } of found) await sandbox[Symbol.asyncDispose]()
    return found.length
  }

  return {
    name,
    isolation: 'none',
    capabilities: CAPABILITIES,

    async probe(signal) {
      signal.throwIfAborted()
      return { ok: true, features: ['runs no code: programs are scripts of the fake language'] }
    },

    async open(spec, signal) {
      signal.throwIfAborted()
      refuseMissing(name, CAPABILITIES, spec)
      // The timer rejects with its own AbortError; callers must get their signal's reason.
      if (openMs > 0) await sleep(openMs, undefined, { signal }).catch(() => signal.throwIfAborted())
      if (live.size >= maxSandboxes)
        throw new CofferdamError('sandbox_open_failed', `${name} holds ${maxSandboxes} sandboxes already.`)
      if (live.has(spec.sandboxId)) throw new CofferdamError('conflict', `${spec.sandboxId} exists already.`)
      const sandbox = new FakeSandbox(name, spec, () => live.delete(spec.sandboxId))
      live.set(spec.sandboxId, { sandbox, owner: spec.owner })
      return sandbox
    },

    async kill(ref) {
      return (await destroy([ref.id])) > 0
    },

    async sweep(owner) {
      const left = [...live].filter(([, entry]) => entry.owner === owner)
      return { destroyed: await destroy(left.map(([id]) => id)) }
    },

    async owners() {
      return [...new Set([...live.values()].map((entry) => entry.owner))]
    },

    async [Symbol.asyncDispose]() {
      await destroy([...live.keys()])
    },
  }
}

/** Entry point of the backend registry. */
export const createBackend = (config: FakeConfig, _deps: BackendDeps, name: string): Backend =>
  createFakeBackend(config, name)
