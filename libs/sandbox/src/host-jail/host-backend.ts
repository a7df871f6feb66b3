/**
 * The backend of sandboxes that are processes of this host: warm slots, records, cgroups, proven ends. A rung
 * (bwrap, self-jail, plain) decides how a sandbox is isolated.
 */
import { CofferdamError, refuseMissing, type Backend, type Probe, type Sandbox } from '@cofferdam/contract'
import { SILENT, type BackendDeps } from '../deps.ts'
import { GuestSandbox } from '../guest-sandbox.ts'
import type { GuestSlot } from '../guest-slot.ts'
import { createWarmth } from '../warm/index.ts'
import { capabilitiesOf, limitFeatures } from './capabilities.ts'
import { createCgroups } from './cgroups.ts'
import { createEnds } from './ends.ts'
import { findPreloadSets } from './preload-sets.ts'
import type { HostParts } from './prepare-host.ts'
import { thisPlace } from './process-identity.ts'
import { createRecords, isSlotId } from './records.ts'
import type { Rung } from './rung.ts'
import type { SlotUids } from './slot-uids.ts'
import { startHostSlot, type SlotStarter } from './start-host-slot.ts'

export interface HostBackendOptions {
  name: string
  rung: Rung | null
  /** Why there is no rung, and the fix. */
  refusal: { why: string; fix: string }
  /** Null if the host could not be prepared. */
  parts: HostParts | null
  /** A uid per slot; null if all share one. */
  uids: SlotUids | null
  /** A line for doctor that names the user that programs run as. */
  feature: string
  /** Folder of this backend's records; created here. */
  root: string
  cgroupParent: string | null
  useCgroups: boolean
  readyTimeoutMs: number
  deps: BackendDeps
}

/** If this host cannot run the backend, this does not throw: `probe` reports it. */
export async function createHostBackend(options: HostBackendOptions, signal: AbortSignal): Promise<Backend> {
  const { name, rung, parts, uids, deps } = options
  const logger = deps.logger ?? SILENT
  const records = createRecords(options.root)
  const cgroups = rung !== null && options.useCgroups ? createCgroups(options.cgroupParent) : null
  const place = rung === null ? '' : await thisPlace()
  const sets = deps.warm?.config.preload ?? {}
  const preloads =
    parts === null || rung === null
      ? { usable: [], missing: [] }
      : await findPreloadSets(parts.python, sets, signal)
  const capabilities = capabilitiesOf(rung, cgroups, preloads.usable)
  const ends = createEnds({ records, cgroups, uids, place, ownsPids: rung?.ownsPids ?? false })
  const live = new Set<Sandbox>()
  let isDisposed = false
  let sweeping: Promise<unknown> = Promise.resolve()
  /** One sweep at a time, in the background. */
  const sweepOrphans = (): void => {
    sweeping = sweeping
      .then(() => (isDisposed ? 0 : cgroups?.sweep(Date.now())))
      .then(() => (isDisposed ? 0 : uids?.sweep(Date.now())))
      .catch((error: unknown) =>
        logger.warn({ backend: name, error }, 'orphaned cgroups and uids were not swept'),
      )
  }
  sweepOrphans()

  const starter = (usable: Rung): SlotStarter => ({
    name,
    rung: usable,
    records,
    cgroups,
    uids,
    dropTo: parts?.dropTo ?? null,
    ends,
    place,
    readyTimeoutMs: options.readyTimeoutMs,
  })
  const warmth = createWarmth<GuestSlot>({
    backend: name,
    start: (spec, stop) => {
      if (rung === null) throw new CofferdamError('backend_unavailable', options.refusal.why)
      return startHostSlot(starter(rung), spec, stop)
    },
    deps: deps.warm ?? null,
    logger,
    onLeft: deps.onLeft,
  })

  return {
    name,
    isolation: rung?.isolation ?? 'none',
    capabilities,

    async probe(stop): Promise<Probe> {
      stop.throwIfAborted()
      if (rung === null) return { ok: false, ...options.refusal }
      const limits = limitFeatures(capabilities, cgroups)
      return {
        ok: true,
        features: [...rung.features, options.feature, ...limits, ...preloads.missing],
      }
    },
    prewarm() {
      if (rung !== null) warmth.prewarm()
    },
    get idle() {
      return warmth.idle
    },
    async open(spec, stop) {
      stop.throwIfAborted()
      if (rung === null || isDisposed) throw new CofferdamError('backend_unavailable', options.refusal.why)
      refuseMissing(name, capabilities, spec)
      const taken = await warmth.take(spec, stop)
      const sandbox: Sandbox = new GuestSandbox({ name, isolation: rung.isolation, capabilities }, spec, {
        ...taken,
        end: (lost) => taken.end(lost).finally(() => live.delete(sandbox)),
      })
      live.add(sandbox)
      return sandbox
    },

    async kill(ref) {
      const { slot } = ref.handle
      if (!isSlotId(slot))
        throw new CofferdamError('invalid_request', `${name}: the ref of ${ref.id} names no slot.`)
      const owner = await records.ownerOf(slot)
      if (owner === null) return false
      return (await ends.endRecorded(owner, slot)) > 0
    },
    async sweep(owner) {
      const found = await records.list(owner)
      const killed = await Promise.all(found.map(({ id }) => ends.endRecorded(owner, id)))
      return { destroyed: killed.reduce((sum, n) => sum + n, 0) }
    },
    owners() {
      // Sweep here, because the janitor calls `owners` twice a minute.
      sweepOrphans()
      return records.owners()
    },

    async [Symbol.asyncDispose]() {
      isDisposed = true
      const left = await Promise.allSettled([...live].map((sandbox) => sandbox[Symbol.asyncDispose]()))
      for (const result of left)
        if (result.status === 'rejected')
          logger.warn({ backend: name, error: result.reason as unknown }, 'a sandbox was not destroyed')
      await warmth.close()
      await rung?.close?.()
      await sweeping
      cgroups?.close()
    },
  }
}
