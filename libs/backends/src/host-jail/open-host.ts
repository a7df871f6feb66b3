/** From the settings that host backends share to a backend on the rung that `choose` picks. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { CofferdamError, isCofferdamError, type Backend } from '@cofferdam/contract'
import type { BackendDeps } from '../deps.ts'
import { createHostBackend } from './host-backend.ts'
import { prepareHost, type HostParts } from './prepare-host.ts'
import type { Rung } from './rung.ts'
import { defaultRuntimeDir } from './runtime-dir.ts'

export interface HostSettings {
  runtime_dir?: string | undefined
  python?: string | undefined
  node?: string | undefined
  uid: number
  gid: number
  cgroups: boolean
  cgroup_parent?: string | undefined
  ready_timeout_ms: number
}

export interface Refusal {
  why: string
  fix: string
}

/** All of it together takes 0.2 s; a host that hangs here cannot run sandboxes either. */
const PREPARE_MS = 60_000

/** Makes the backend. What keeps this host from running it becomes the answer of `probe`; throws only `config_invalid`. */
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
  try {
    const prepared = await prepareHost(
      {
        runtimeDir,
        python: config.python,
        node: config.node ?? process.execPath,
        dropTo: { uid: config.uid, gid: config.gid },
      },
      signal,
    )
    if ('missing' in prepared) refusal = { why: prepared.missing, fix: prepared.fix }
    else {
      parts = prepared
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
  return createHostBackend({
    name,
    rung,
    refusal,
    root,
    cgroupParent: config.cgroup_parent ?? null,
    useCgroups: config.cgroups,
    dropTo: parts?.dropTo ?? null,
    readyTimeoutMs: config.ready_timeout_ms,
    deps,
  })
}
