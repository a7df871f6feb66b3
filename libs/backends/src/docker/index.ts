/**
 * The `docker` backend, and `gvisor`, which is the same with runtime runsc: one hardened container per sandbox, our
 * guest agent inside, frames over the attach stream. README.md says what it isolates and what it does not.
 */
import { CofferdamError, refuseMissing, type Backend, type SandboxSpec } from '@cofferdam/contract'
import { languageOf } from '@cofferdam/guest'
import { SILENT, type BackendDeps } from '../deps.ts'
import { dockerConfigSchema, type DockerConfig } from './config.ts'
import { containerName, type SlotSpec } from './container-options.ts'
import { connectDaemon } from './daemon.ts'
import { destroyContainer } from './destroy-container.ts'
import { findSandboxes, isSandboxId } from './find-sandboxes.ts'
import { createOomEvents } from './oom-events.ts'
import { probeDocker } from './probe.ts'
import { runtimeKind } from './runtime-kind.ts'
import { bindSlot } from './sandbox.ts'
import { startSlot } from './start-slot.ts'

/** Makes the backend; loads dockerode, talks to no daemon before `probe` or `open`. `config` takes its defaults from the schema. */
export async function createDockerBackend(
  config: Partial<DockerConfig> = {},
  deps: BackendDeps = {},
  name = 'docker',
): Promise<Backend> {
  const settings = dockerConfigSchema.parse(config)
  const daemon = await connectDaemon(settings)
  const logger = deps.logger ?? SILENT
  const oomEvents = createOomEvents(daemon, logger)
  const { isolation, capabilities } = runtimeKind(settings.runtime)

  return {
    name,
    isolation,
    capabilities,

    probe: async (signal) => {
      signal.throwIfAborted()
      return probeDocker(daemon, settings, signal)
    },

    async open(spec, signal) {
      signal.throwIfAborted()
      refuseMissing(name, capabilities, spec)
      await oomEvents.listen()
      const slot = await startSlot(daemon, slotFor(spec, settings), {
        readyTimeoutMs: settings.ready_timeout_ms,
        signal,
        logger,
      })
      return bindSlot(slot, spec, { backend: name, isolation, capabilities, warm: false, daemon, oomEvents })
    },

    async kill(ref) {
      const { slot } = ref.handle
      if (!isSandboxId(slot))
        throw new CofferdamError('invalid_request', `${name}: the ref of ${ref.id} names no slot.`)
      return destroyContainer(daemon, containerName(slot))
    },

    async sweep(owner) {
      const left = await findSandboxes(daemon, owner)
      const destroyed = await Promise.all(
        left.map(({ slotId }) => destroyContainer(daemon, containerName(slotId))),
      )
      return { destroyed: destroyed.filter(Boolean).length }
    },

    async owners() {
      return [...new Set((await findSandboxes(daemon)).map(({ owner }) => owner))]
    },

    async [Symbol.asyncDispose]() {
      oomEvents.close()
    },
  }
}

/** What the registry calls. */
export const createBackend = (config: DockerConfig, deps: BackendDeps, name: string): Promise<Backend> =>
  createDockerBackend(config, deps, name)

const slotFor = (spec: SandboxSpec, settings: DockerConfig): SlotSpec => ({
  slotId: spec.sandboxId,
  owner: spec.owner,
  image: settings.image,
  runtime: settings.runtime,
  language: languageOf(spec.program),
  limits: spec.limits,
})
