/**
 * Creates a backend from the settings that all host backends share. `choose` picks its rung, which is the way
 * to start an agent on this host (rung.ts).
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { CofferdamError, isCofferdamError, type Backend } from '@cofferdam/contract'
import type { BackendDeps } from '../deps.ts'
import { createHostBackend } from './host-backend.ts'
import { prepareHost, type HostParts } from './prepare-host.ts'
import type { Rung } from './rung.ts'
import { defaultRuntimeDir } from './runtime-dir.ts'
import { createSlotUids, DEFAULT_UIDS, refusedUids, type SlotUids, type UidRange } from './slot-uids.ts'

/** The programs' user if uids per sandbox are unavailable. */
const NOBODY = 65_534

export interface HostSettings {
  runtime_dir?: string | undefined
  python?: string | undefined
  node?: string | undefined
  uid?: number | undefined
  gid?: number | undefined
  uid_range?: UidRange | undefined
  cgroups: boolean
  cgroup_parent?: string | undefined
  ready_timeout_ms: number
}

export interface Refusal {
  why: string
  fix: string
}

/** Timeout for preparing the host, which takes 0.2 s. A host that hangs here cannot run sandboxes either. */
const PREPARE_MS = 60_000

/** Obstacles on this host become `probe`'s answer. Throws only `config_invalid`. */
export async function openHost(
  name: string,
  config: HostSettings,
  deps: BackendDeps,
  choose: (parts: HostParts, root: string, signal: AbortSignal) => Promise<Rung | Refusal>,
): Promise<Backend> {
  const runtimeDir = config.runtime_dir ?? defaultRuntimeDir()
  const root = join(runtimeDir, 'sandboxes', name)
  const signal = AbortSignal.timeout(PREPARE_MS)
  let rung: Rung | null = null
  let refusal: Refusal = { why: '', fix: '' }
  let parts: HostParts | null = null
  let identity: Identity = { uids: null, feature: '' }
  try {
    const prepared = await prepareHost(
      {
        runtimeDir,
        python: config.python,
        node: config.node ?? process.execPath,
        dropTo: { uid: config.uid ?? NOBODY, gid: config.gid ?? NOBODY },
      },
      signal,
    )
    if ('missing' in prepared) refusal = { why: prepared.missing, fix: prepared.fix }
    else {
      parts = prepared
      identity = identityOf(config, runtimeDir)
      await mkdir(root, { recursive: true, mode: 0o711 })
      const chosen = await choose(prepared, root, signal)
      if ('why' in chosen) refusal = chosen
      else rung = chosen
    }
  } catch (error) {
    if (isCofferdamError(error)) throw error
    throw new CofferdamError('config_invalid', `${name}: ${runtimeDir} cannot be used: ${String(error)}`, {
      cause: error,
    })
  }
  return createHostBackend(
    {
      name,
      rung,
      refusal,
      root,
      cgroupParent: config.cgroup_parent ?? null,
      useCgroups: config.cgroups,
      parts,
      ...identity,
      readyTimeoutMs: config.ready_timeout_ms,
      deps,
    },
    signal,
  )
}

interface Identity {
  uids: SlotUids | null
  /** A line for doctor that names the user that programs run as. */
  feature: string
}

function identityOf(config: HostSettings, runtimeDir: string): Identity {
  if (process.getuid?.() !== 0)
    return {
      uids: null,
      feature: `all sandboxes run as this user (uid ${process.getuid?.()}): limits that the kernel counts per user are shared; a worker that is root gives each sandbox a uid`,
    }
  const shared = `all sandboxes run as uid ${config.uid ?? NOBODY}: limits that the kernel counts per user are shared`
  if (config.uid !== undefined)
    return { uids: null, feature: `${shared}; leave uid out to give each its own` }
  const range = config.uid_range ?? DEFAULT_UIDS
  const refused = refusedUids(range)
  if (refused === null)
    return {
      uids: createSlotUids(runtimeDir, range),
      feature: `a uid of its own for each sandbox (${range.first}–${range.first + range.count - 1}), given out again only after its processes are proven gone`,
    }
  if (config.uid_range !== undefined)
    throw new CofferdamError('config_invalid', `uid_range: ${refused}. Name another range.`)
  return { uids: null, feature: `${shared}, because ${refused}: set uid_range` }
}
