/**
 * The `docker` backend, and `gvisor`, which is the same with the runtime runsc: one hardened container per
 * sandbox with our guest agent. Frames use a unix socket or the attach stream. With warm slots, containers
 * start in advance. README.md says what it isolates and what not.
 */
import {
  CofferdamError,
  isCofferdamError,
  refuseMissing,
  type Backend,
  type Capabilities,
  type SandboxId,
  type WorkerId,
} from '@cofferdam/contract'
import { SILENT, type BackendDeps } from '../deps.ts'
import { GuestSandbox } from '../guest-sandbox.ts'
import type { GuestSlot } from '../guest-slot.ts'
import { createWarmth, type SlotSpec } from '../warm/index.ts'
import { createHostChoice } from './choose-host.ts'
import { dockerConfigSchema, type DockerConfig } from './config.ts'
import { containerName, LABELS } from './container-options.ts'
import { connectDaemon, daemonMessage, type Daemon } from './daemon.ts'
import { destroyContainer } from './destroy-container.ts'
import { createHostCounterSource } from './host-counters.ts'
import { countOomKills, createOomEvents } from './oom-events.ts'
import { createPreloadOffer } from './preload-offer.ts'
import { probeDocker } from './probe.ts'
import { createIsolationProof } from './prove-isolation.ts'
import { runtimeKind } from './runtime-kind.ts'
import { createSocketFolders, defaultSocketRoot } from './socket-channel.ts'
import { startSlot, type StartParts } from './start-slot.ts'

/** Loads dockerode but calls no daemon before `probe`, `prewarm` or `open`. The schema fills in defaults. */
export async function createDockerBackend(
  config: Partial<DockerConfig> = {},
  deps: BackendDeps = {},
  name = 'docker',
): Promise<Backend> {
  const settings = dockerConfigSchema.parse(config)
  const daemon = await connectDaemon(settings)
  const logger = deps.logger ?? SILENT
  const kind = runtimeKind(settings.runtime)
  const oomEvents = createOomEvents(daemon, logger, kind.isolation === 'gvisor' ? countOomKills : null)
  const host = createHostChoice(daemon, settings, logger)
  const proof = createIsolationProof(daemon, settings.runtime, async () => (await host.chosen()).imageId)
  const sockets = createSocketFolders(settings.runtime_dir ?? defaultSocketRoot())
  const hostCounters = createHostCounterSource(daemon, logger)
  const parts: StartParts = {
    daemon,
    host,
    proof,
    sockets,
    hostCounters,
    oomEvents,
    readyTimeoutMs: settings.ready_timeout_ms,
    logger,
  }
  const warmth = createWarmth<GuestSlot>({
    backend: name,
    start,
    deps: deps.warm ?? null,
    logger,
    onLeft: deps.onLeft,
  })
  const offer = createPreloadOffer(warmth.preloadSets, logger)
  const capabilities: Capabilities = {
    ...kind.capabilities,
    get preloads() {
      return offer.names()
    },
    get measures() {
      const { measures } = kind.capabilities
      return kind.countsOnHost && !hostCounters.isAvailable ? (['wall_ms'] as const) : measures
    },
  }
  async function start(spec: SlotSpec, signal: AbortSignal): Promise<GuestSlot> {
    // Prove first, so that no slot of a runtime for virtual machines starts before the proof.
    await proof.prove().catch((cause: unknown) => {
      if (isCofferdamError(cause)) throw cause
      throw new CofferdamError('sandbox_open_failed', `${name}: ${daemonMessage(cause)}`, { cause })
    })
    signal.throwIfAborted()
    // Listen before the container starts, so that an early OOM is not missed.
    await oomEvents.listen()
    try {
      return await startSlot(parts, spec, signal)
    } catch (error) {
      offer.failed(spec.preload, error)
      throw error
    }
  }

  return {
    name,
    // Read this after the probe or an open. Before, a runtime for virtual machines counts only as a
    // container.
    get isolation() {
      return proof.isolation
    },
    capabilities,

    probe: async (signal) => {
      signal.throwIfAborted()
      return probeDocker(daemon, settings, { host, offer, proof }, signal)
    },

    prewarm() {
      warmth.prewarm()
    },
    get idle() {
      return warmth.idle
    },

    async open(spec, signal) {
      signal.throwIfAborted()
      refuseMissing(name, capabilities, spec)
      const bound = await warmth.take(spec, signal)
      return new GuestSandbox({ name, isolation: proof.isolation, capabilities }, spec, bound)
    },

    async kill(ref) {
      const { slot } = ref.handle
      if (!isSandboxId(slot))
        throw new CofferdamError('invalid_request', `${name}: the ref of ${ref.id} names no slot.`)
      return destroyContainer(daemon, containerName(slot), kind)
    },

    async sweep(owner) {
      const left = await findSandboxes(daemon, owner)
      const destroyed = await Promise.all(
        left.map(({ slotId }) => destroyContainer(daemon, containerName(slotId), kind)),
      )
      await sockets.sweep(owner)
      return { destroyed: destroyed.filter(Boolean).length }
    },

    async owners() {
      return [...new Set((await findSandboxes(daemon)).map(({ owner }) => owner))]
    },

    async [Symbol.asyncDispose]() {
      await warmth.close()
      oomEvents.close()
      await sockets.close()
    },
  }
}

/** All containers with our labels, running or not; with `owner`, only that owner's. */
async function findSandboxes(
  daemon: Daemon,
  owner?: WorkerId,
): Promise<{ slotId: SandboxId; owner: WorkerId }[]> {
  const label = [LABELS.sandbox, owner === undefined ? LABELS.owner : `${LABELS.owner}=${owner}`]
  const containers = await daemon.call('list', (abortSignal) =>
    daemon.docker.listContainers({ all: true, filters: { label }, abortSignal }),
  )
  return containers.flatMap(({ Labels: labels }) => {
    const slotId = labels[LABELS.sandbox]
    const owned = labels[LABELS.owner]
    return isSandboxId(slotId) && owned?.startsWith('wrk_') === true
      ? [{ slotId, owner: owned as WorkerId }]
      : []
  })
}

const isSandboxId = (text: unknown): text is SandboxId =>
  typeof text === 'string' && /^sbx_[0-9a-f]{32}$/.test(text)

/** Entry point of the backend registry. */
export const createBackend = (config: DockerConfig, deps: BackendDeps, name: string): Promise<Backend> =>
  createDockerBackend(config, deps, name)
