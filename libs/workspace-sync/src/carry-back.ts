/**
 * Merges a sandbox's files back into the workspace, with compare-and-swap on its version. If another process
 * committed meanwhile, it merges again with the new state. So any number of replicas may do this at once.
 */
import {
  CofferdamError,
  type ConflictPolicy,
  type Manifest,
  type WorkspaceName,
  type WorkspaceReport,
  type WorkspaceStore,
} from '@cofferdam/contract'
import { mergeWithPauses, type MergeResult } from './merge.ts'
import { diffManifests } from './manifest.ts'
import type { CompiledRules } from './rules.ts'

export interface CarryBackInput {
  workspace: WorkspaceName
  /** The files that the sandbox was given. */
  base: Manifest
  /** The files that the sandbox contains now. */
  sandbox: Manifest
  /** Bytes of a path of `sandbox`. Called only for files that are merged. */
  bytesOf(path: string): Uint8Array
  rules: CompiledRules
  onConflict: ConflictPolicy
  job: string
  /** Paths that could not be read from the sandbox, for the report. */
  refused?: readonly { path: string; reason: string }[]
}

/** A further round is needed only if another replica committed meanwhile. */
const MAX_ROUNDS = 20
/**
 * The most paths in a list of a report. A workspace has no more files than that. Further paths are only
 * counted.
 */
const MAX_LISTED = 1000

/** Throws `store_unavailable`, or `conflict` if others committed in every round. Nothing is merged then. */
export async function carryBack(store: WorkspaceStore, input: CarryBackInput): Promise<WorkspaceReport> {
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const { version, manifest: host } = await store.read(input.workspace)
    const result = await mergeWithPauses({ ...input, host })
    const { changed, deleted } = diffManifests(host, result.manifest)
    if (changed.size + deleted.length === 0)
      return report(input, result, version, result.status === 'failed' ? 'failed' : 'unchanged')
    const contents = new Map<string, Uint8Array>()
    for (const [path, from] of result.taken) {
      const facts = result.manifest.get(path)
      if (facts !== undefined) contents.set(facts.sha256, input.bytesOf(from))
    }
    const committed = await store.commit(input.workspace, {
      expectedVersion: version,
      expectedManifest: host,
      manifest: result.manifest,
      contents,
    })
    if (committed !== null) return report(input, result, committed, 'merged')
  }
  throw new CofferdamError('conflict', 'The workspace changes faster than it can be merged.')
}

function report(
  { workspace, refused = [] }: CarryBackInput,
  result: MergeResult,
  version: number,
  status: WorkspaceReport['status'],
): WorkspaceReport {
  let omitted = 0
  const listed = <T>(all: readonly T[]): T[] => {
    omitted += Math.max(0, all.length - MAX_LISTED)
    return all.slice(0, MAX_LISTED)
  }
  return {
    name: workspace.name,
    version,
    status,
    ...(status === 'failed' ? { reason: 'conflict' } : {}),
    applied: listed(result.applied),
    conflicted: listed(result.conflicted),
    refused: listed([...refused, ...result.refused]),
    omitted,
  }
}
