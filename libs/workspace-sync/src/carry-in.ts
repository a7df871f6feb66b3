/** What a sandbox has to be given so that it holds the workspace as it stands now. */
import {
  CofferdamError,
  type Manifest,
  type ProgramFile,
  type WorkspaceName,
  type WorkspaceStore,
} from '@cofferdam/contract'
import { diffManifests } from './manifest.ts'
import type { CompiledRules } from './rules.ts'

export interface CarriedIn {
  version: number
  /** What the sandbox holds of the workspace when `files` are written and `removed` are gone. */
  manifest: Manifest
  files: ProgramFile[]
  removed: string[]
  /** What of the workspace the rules keep out of the sandbox. */
  unseen: Manifest
}

/** Others may commit between the reads of manifest and contents; each round means that one did. */
const MAX_ROUNDS = 8

/**
 * What a sandbox's files are held against: what it was given; and for what it makes and may not see, such as results that only
 * go out, what the workspace had of them when it began.
 */
export function baseOf({ manifest, unseen }: CarriedIn, sandbox: Manifest): Manifest {
  return new Map([...manifest, ...[...unseen].filter(([path]) => sandbox.has(path))])
}

/** `held` is what the sandbox holds already: nothing for a fresh one. Throws `store_unavailable` and `conflict`. */
export async function carryIn(
  store: WorkspaceStore,
  workspace: WorkspaceName,
  rules: CompiledRules,
  held: Manifest,
): Promise<CarriedIn> {
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const now = await store.read(workspace)
    const manifest = new Map([...now.manifest].filter(([path]) => rules.refusesIn(path) === null))
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
