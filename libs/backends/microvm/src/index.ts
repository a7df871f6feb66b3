/**
 * The `microvm` backend. Each sandbox is a virtual machine on this host with our guest agent inside: a clone
 * of a snapshot, which is used once. README.md says what it isolates, and what was never run.
 */
import { mkdir } from 'node:fs/promises'
import { hostname } from 'node:os'
import { basename, join } from 'node:path'
import {
  CofferdamError,
  newSandboxId,
  newWorkerId,
  refuseMissing,
  unlessAborted,
  type Backend,
  type Probe,
  type SandboxId,
  type WorkerId,
} from '@cofferdam/contract'
import {
  cgroupAt,
  createCgroups,
  createRecords,
  ensureRuntimeDir,
  GuestSandbox,
  isSlotId,
  SILENT,
  thisPlace,
  type BackendDeps,
  type Records,
} from '@cofferdam/sandbox/backend'
import { createWarmth, type WarmDeps } from '@cofferdam/sandbox/warm'
import type { z } from 'zod'
import { capabilitiesOf } from './capabilities.ts'
import { microvmConfigSchema, type MicrovmConfig } from './config.ts'
import { createEngine, runtimeDirOf } from './create-engine.ts'
import { findImage, IMAGE_CACHE, listImages, type MicrovmImage } from './image.ts'
import { onceLoaded } from './once-loaded.ts'
import { createMachineMemory, type MachineMemory } from './machine-memory.ts'
import { createPausedSessions } from './paused/paused-sessions.ts'
import { createPausedStore } from './paused/paused-store.ts'
import { startSlot, type MachineSlot } from './start-slot.ts'
import { createTemplates } from './templates.ts'

const MiB = 1_048_576
/** Of the machine that the probe starts. */
const PROBE_LIMITS = { memory_mib: 256, cpus: 1, pids: 64, disk_mib: 64 }
const FIX_IMAGE = 'npm run image -- --microvm (needs erofs-utils)'
const FIX_MACHINE = {
  qemu: 'Read the worker’s log, and start QEMU by hand.',
  firecracker: 'Read docs/operations/firecracker.md, and run cofferdam doctor --production.',
} as const

/**
 * Looks at the host, but starts nothing before `probe`, `prewarm` or `open`. The schema fills in defaults.
 */
export async function createMicrovmBackend(
  config: z.input<typeof microvmConfigSchema> = {},
  deps: BackendDeps = {},
  name = 'microvm',
): Promise<Backend> {
  const settings = microvmConfigSchema.parse(config)
  const logger = deps.logger ?? SILENT
  const engine = await createEngine(settings)
  const isolation = engine.hardware ? 'microvm' : 'microvm-emulated'
  const image = onceLoaded(async (): Promise<MicrovmImage> => {
    const cache = settings.image_dir ?? IMAGE_CACHE
    const found = await findImage(cache, settings.image)
    if (found !== null) return found
    throw new CofferdamError(
      'backend_unavailable',
      `There is no ${settings.image} image of virtual machines with this version’s agent in ${cache}.`,
    )
  })
  const folder = async (below: string): Promise<string> => {
    const top = runtimeDirOf(settings)
    await ensureRuntimeDir(top)
    const path = join(top, 'microvm', below)
    await mkdir(path, { recursive: true, mode: 0o700 })
    return path
  }
  const records = onceLoaded(async (): Promise<Records> => createRecords(await folder('machines')))
  const templates = createTemplates({ engine, image, folder: () => folder('templates'), logger })
  // Firecracker's jailer makes its own.
  const cgroups = engine.name === 'qemu' ? createCgroups(settings.cgroup_parent ?? null) : null
  const memory = createMachineMemory()
  const parts = {
    engine,
    templates,
    image,
    records,
    cgroups,
    memory,
    place: await thisPlace(),
    readyTimeoutMs: settings.ready_timeout_ms,
  }
  const store = createPausedStore(async () => {
    if (settings.paused_dir === undefined) return await folder('paused')
    await mkdir(settings.paused_dir, { recursive: true, mode: 0o700 })
    await ensureRuntimeDir(settings.paused_dir)
    return settings.paused_dir
  }, deps.sealing ?? null)
  const paused = createPausedSessions({
    start: parts,
    store,
    sessions: deps.sessions,
    images: () => listImages(settings.image_dir ?? IMAGE_CACHE),
    hostGroup: settings.host_group ?? hostname(),
    maxAgeMs: settings.paused_max_age_ms,
    maxBytes: settings.paused_max_mib * MiB,
    maxPerTenant: settings.paused_max_per_tenant,
    isSealed: deps.sealing !== undefined,
  })
  const warmth = createWarmth<MachineSlot>({
    backend: name,
    start: (spec, signal) => startSlot(parts, spec, signal),
    deps: deps.warm === undefined ? null : withMachines(deps.warm, memory),
    logger,
    onLeft: deps.onLeft,
    ...(engine.resume === undefined ? {} : { paused }),
  })
  const capabilities = capabilitiesOf(warmth.preloads)

  /**
   * Starts one machine from the template, up to the agent's first frame, and resolves to the milliseconds
   * that it took. Not repeated after a success.
   */
  const proven = onceLoaded(async (): Promise<number> => {
    const spec = {
      slotId: newSandboxId(),
      owner: newWorkerId('probe'),
      language: 'none' as const,
      preload: [],
      limits: PROBE_LIMITS,
      cell: false,
    }
    await templates.get(PROBE_LIMITS)
    const began = performance.now()
    const slot = await startSlot(parts, spec, new AbortController().signal)
    const ms = Math.round(performance.now() - began)
    await slot.destroy()
    return ms
  })

  async function end(owner: WorkerId, id: SandboxId): Promise<boolean> {
    const known = await records()
    const record = known.read(owner, id)
    const existed = await engine.killLeft({ id, process: record })
    // A record may only name a group of its own machine.
    const recorded = (record?.cgroups ?? []).filter((path) => basename(path) === id)
    await (recorded.length > 0 ? cgroupAt(recorded) : cgroups?.find(id))?.remove()
    await known.remove(owner, id)
    return existed
  }

  return {
    name,
    isolation,
    capabilities,

    async probe(signal): Promise<Probe> {
      signal.throwIfAborted()
      const answer = await engine.probe()
      if (!answer.ok) return answer
      try {
        await image()
      } catch (error) {
        return { ok: false, why: messageOf(error), fix: FIX_IMAGE }
      }
      try {
        // The first probe makes the template. That work continues if the caller stops waiting.
        const ms = await unlessAborted(proven(), signal)
        return {
          ok: true,
          features: [
            ...answer.features,
            `a clone of a snapshot per sandbox, which answered after ${ms} ms`,
            cgroups === null
              ? 'no cgroup around a machine'
              : `a cgroup ${cgroups.version} around each machine`,
          ],
        }
      } catch (error) {
        signal.throwIfAborted()
        return { ok: false, why: messageOf(error), fix: FIX_MACHINE[engine.name] }
      }
    },

    prewarm() {
      warmth.prewarm()
    },

    async open(spec, signal) {
      signal.throwIfAborted()
      refuseMissing(name, capabilities, spec)
      const bound = await warmth.take(spec, signal)
      return new GuestSandbox({ name, isolation, capabilities }, spec, bound)
    },

    async kill(ref) {
      const { slot } = ref.handle
      if (!isSlotId(slot))
        throw new CofferdamError('invalid_request', `${name}: the ref of ${ref.id} names no slot.`)
      const owner = await (await records()).ownerOf(slot)
      return owner === null ? false : await end(owner, slot)
    },

    async sweep(owner) {
      const left = await (await records()).list(owner)
      const ended = await Promise.all(left.map(({ id }) => end(owner, id)))
      return { destroyed: ended.filter(Boolean).length }
    },

    async owners() {
      // Remove old sessions here, because the janitor calls `owners` at least every half a minute.
      await store.removeOld()
      return await (await records()).owners()
    },

    endSession: (sessionName, entry) => paused.end(sessionName, entry),

    async [Symbol.asyncDispose]() {
      await warmth.close()
      cgroups?.close()
    },
  }
}

/** A waiting slot takes the memory of its VMM and of the guest's kernel as well. */
const withMachines = (warm: WarmDeps, machines: MachineMemory): WarmDeps => ({
  ...warm,
  memory: {
    tryAcquire: (bytes) => warm.memory.tryAcquire(bytes + machines.bytes),
    onPressure: (listener) => warm.memory.onPressure(listener),
  },
})

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Entry point of the backend registry. */
export const createBackend = (config: MicrovmConfig, deps: BackendDeps, name: string): Promise<Backend> =>
  createMicrovmBackend(config, deps, name)
