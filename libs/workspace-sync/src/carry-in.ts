/** Finds what to write to a sandbox so that it has the current workspace. */
import {
  CofferdamError,
  type FileFacts,
  type Manifest,
  type ProgramFile,
  type WorkspaceName,
  type WorkspaceStore,
} from '@cofferdam/contract'
import { diffManifests } from './manifest.ts'
import { createPauses } from './pauses.ts'
import type { CompiledRules } from './rules.ts'

export interface CarriedIn {
  version: number
  /** The sandbox's part of the workspace after `files` are written and `removed` are deleted. */
  manifest: Manifest
  files: ProgramFile[]
  removed: string[]
  /** Files of the workspace that the rules keep out of the sandbox. */
  unseen: Manifest
}

/** A further round is needed only if another process committed between the reads of manifest and contents. */
const MAX_ROUNDS = 8

/**
 * The base of the merge: what the sandbox was given. For paths that the sandbox may write but not see
 * (results that only go out), it is what the workspace had when the execution started.
 */
export function baseOf({ manifest, unseen }: CarriedIn, sandbox: Manifest): Manifest {
  return new Map([...manifest, ...[...unseen].filter(([path]) => sandbox.has(path))])
}

/** `held` is what the sandbox already has (empty if fresh). Throws `store_unavailable` or `conflict`. */
export async function carryIn(
  store: WorkspaceStore,
  workspace: WorkspaceName,
  rules: CompiledRules,
  held: Manifest,
): Promise<CarriedIn> {
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const now = await store.read(workspace)
    const manifest = new Map<string, FileFacts>()
    const pause = createPauses()
    for (const [path, facts] of now.manifest) {
      await pause()
      if (rules.refusesIn(path) === null) manifest.set(path, facts)
    }
    const { changed, deleted } = diffManifests(held, manifest)
    const hashes = new Set([...changed.values()].map(({ sha256 }) => sha256))
    const contents = await store.contents(workspace, [...hashes])
    if (contents.size < hashes.size) continue
    const files = [...changed].map(([path, { sha256, mode }]) => ({
      path,
      bytes: contents.get(sha256) ?? new Uint8Array(),
      ...((mode & 0o100) === 0 ? {} : { executable: true }),
    }))
    const unseen = new Map([...now.manifest].filter(([path]) => !manifest.has(path)))
    return { version: now.version, manifest, files, removed: deleted, unseen }
  }
  throw new CofferdamError('conflict', 'The workspace changes faster than it can be read.')
}
