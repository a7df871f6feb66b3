/**
 * Three-way merge of a workspace: `base` is what a sandbox was given, `sandbox` what it has now, `host` what
 * the workspace has now. For each path that the sandbox changed or deleted:
 *
 *   not allowed out, or not storable  ─► refused, with the reason
 *   host == base                      ─► applied
 *   host == sandbox                   ─► nothing to do: same change, or this merge was done before
 *   else                              ─► conflict, handled by the policy
 *
 * The merge is idempotent. `keep-both` loses nothing: the sandbox's version gets a new name.
 */
import { BOUNDS, type ConflictPolicy, type FileFacts, type Manifest } from '@cofferdam/contract'
import { diffManifests, sameFacts } from './manifest.ts'
import { createPathIndex, isCarriable, type PathIndex } from './path-index.ts'
import { atOnce, withPauses } from './pauses.ts'
import type { CompiledRules, RuleRefusal } from './rules.ts'

export type MergeRefusal =
  | RuleRefusal
  /** Not a valid path in a workspace. */
  | 'bad_name'
  | 'file_too_large'
  | 'too_many_files'
  | 'total_too_large'
  /** There are already too many versions of one conflict. */
  | 'too_many_conflicts'

export interface MergeInput {
  base: Manifest
  host: Manifest
  sandbox: Manifest
  rules: CompiledRules
  onConflict: ConflictPolicy
  /** The execution's ID, which is part of the names of conflicting versions. */
  job: string
  limits?: { files: number; totalBytes: number; fileBytes: number }
}

export interface MergeResult {
  /** `failed`: there was a conflict under policy `fail`, and `manifest` is the host's. */
  status: 'merged' | 'failed'
  manifest: Manifest
  /** Files whose bytes come from the sandbox: path in the workspace → path in the sandbox. */
  taken: Map<string, string>
  applied: { path: string; change: 'written' | 'deleted' }[]
  conflicted: { path: string; kept_as: string | null }[]
  refused: { path: string; reason: MergeRefusal }[]
}

const DEFAULT_LIMITS = {
  files: BOUNDS.workspaceFiles,
  totalBytes: BOUNDS.workspaceBytes,
  fileBytes: BOUNDS.workspaceFileBytes,
}

/** Merges. The same input gives the same result. */
export const merge = (input: MergeInput): MergeResult => atOnce(steps(input))

/** Like `merge`, with pauses for other work. `rules` and the manifests must not change meanwhile. */
export const mergeWithPauses = (input: MergeInput): Promise<MergeResult> => withPauses(steps(input))

/** Yields after each path. */
function* steps(input: MergeInput): Generator<void, MergeResult> {
  const { base, host, sandbox, rules } = input
  const index = createPathIndex()
  for (const path of host.keys()) {
    index.add(path)
    yield
  }
  const draft = createDraft(input, index)
  const diff = diffManifests(base, sandbox)
  // Deletions first, because a file may have become a folder.
  for (const path of diff.deleted.toSorted()) {
    yield
    const now = host.get(path)
    if (now === undefined) continue
    const refusal = rules.refusesOut(path)
    if (refusal !== null) draft.refuse(path, refusal)
    else if (sameFacts(now, base.get(path))) draft.remove(path)
    else draft.conflict(path, undefined)
  }
  for (const [path, facts] of [...diff.changed].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    yield
    const now = host.get(path)
    if (sameFacts(now, facts)) continue
    const refusal = isCarriable(path) ? rules.refusesOut(path) : 'bad_name'
    if (refusal !== null) draft.refuse(path, refusal)
    else if (!draft.isFree(path)) draft.collide(path, facts)
    else if (sameFacts(now, base.get(path))) draft.write(path, facts, path)
    else draft.conflict(path, facts)
  }
  return draft.result()
}

interface Draft {
  refuse(path: string, reason: MergeRefusal): void
  remove(path: string): void
  /** Stores the sandbox's `from` as `path`. */
  write(path: string, facts: FileFacts, from: string): void
  /** Both sides changed the file. Without facts, the sandbox deleted it. */
  conflict(path: string, facts: FileFacts | undefined): void
  isFree(path: string): boolean
  /** Another file or folder collides with this path. */
  collide(path: string, facts: FileFacts): void
  result(): MergeResult
}

/** `index` has the paths of `host`. */
function createDraft(
  { base, host, sandbox, onConflict, job, limits = DEFAULT_LIMITS }: MergeInput,
  index: PathIndex,
): Draft {
  const files = new Map(host)
  let total = [...files.values()].reduce((sum, { size }) => sum + size, 0)
  const taken: MergeResult['taken'] = new Map()
  const applied: MergeResult['applied'] = []
  const conflicted: MergeResult['conflicted'] = []
  const refused: MergeResult['refused'] = []

  /** Null when the file fits. */
  const lacksRoom = (path: string, { size }: FileFacts): MergeRefusal | null => {
    const before = files.get(path)
    if (size > limits.fileBytes) return 'file_too_large'
    if (before === undefined && files.size >= limits.files) return 'too_many_files'
    // A change that makes the workspace smaller is accepted even if the workspace was too large before.
    const grows = size - (before?.size ?? 0)
    return grows > 0 && total + grows > limits.totalBytes ? 'total_too_large' : null
  }
  const put = (path: string, facts: FileFacts, from: string): MergeRefusal | null => {
    const refusal = lacksRoom(path, facts)
    if (refusal !== null) return refusal
    total += facts.size - (files.get(path)?.size ?? 0)
    if (!files.has(path)) index.add(path)
    files.set(path, facts)
    taken.set(path, from)
    return null
  }
  const drop = (path: string): void => {
    total -= files.get(path)?.size ?? 0
    files.delete(path)
    index.delete(path)
  }
  /** Stores the sandbox's version under a new name. */
  const keepBeside = (path: string, facts: FileFacts): void => {
    const name = freeName(path, job, facts, { base, files, sandbox, index })
    const refusal =
      name === null ? 'too_many_conflicts' : sameFacts(files.get(name), facts) ? null : put(name, facts, path)
    if (refusal !== null) refused.push({ path, reason: refusal })
    conflicted.push({ path, kept_as: refusal === null ? name : null })
  }

  return {
    refuse: (path, reason) => void refused.push({ path, reason }),
    remove(path) {
      drop(path)
      applied.push({ path, change: 'deleted' })
    },
    write(path, facts, from) {
      const refusal = put(path, facts, from)
      if (refusal === null) applied.push({ path, change: 'written' })
      else refused.push({ path, reason: refusal })
    },
    conflict(path, facts) {
      switch (onConflict) {
        case 'sandbox-wins': {
          const refusal = facts === undefined ? null : put(path, facts, path)
          if (facts === undefined) drop(path)
          if (refusal !== null) refused.push({ path, reason: refusal })
          conflicted.push({ path, kept_as: facts === undefined || refusal !== null ? null : path })
          return
        }
        case 'keep-both':
          // A deletion has no version to keep, so the host's changed file stays.
          if (facts === undefined) conflicted.push({ path, kept_as: null })
          else keepBeside(path, facts)
          return
        case 'host-wins':
        case 'fail':
          conflicted.push({ path, kept_as: null })
      }
    },
    isFree: (path) => !index.clashes(path),
    collide(path, facts) {
      if (onConflict === 'host-wins' || onConflict === 'fail') conflicted.push({ path, kept_as: null })
      // This also applies to `sandbox-wins`, because the colliding file is another file.
      else keepBeside(path, facts)
    },
    result() {
      const failed = onConflict === 'fail' && conflicted.length > 0
      return failed
        ? { status: 'failed', manifest: host, taken: new Map(), applied: [], conflicted, refused }
        : { status: 'merged', manifest: files, taken, applied, conflicted, refused }
    },
  }
}

/**
 * The most names that an execution tries for a path. It needs more than one only if the host changes
 * meanwhile.
 */
const MAX_VERSIONS = 16

/**
 * A name for the sandbox's version of a file that both sides changed: `<name>.conflict-<job>`, or if that is
 * taken, `<name>.conflict-<job>-2` and so on. Returns an existing name if its file has the same bytes.
 * Null when no name is free.
 */
function freeName(
  path: string,
  job: string,
  facts: FileFacts,
  { base, files, sandbox, index }: Record<'base' | 'files' | 'sandbox', Manifest> & { index: PathIndex },
): string | null {
  for (let version = 1; version <= MAX_VERSIONS; version += 1) {
    const name = conflictName(path, version === 1 ? `.conflict-${job}` : `.conflict-${job}-${version}`, index)
    if (name === null) return null
    // Skips names that the sandbox uses or deleted: this merge would overwrite or delete the kept file.
    const others = [files.get(name), sandbox.get(name)]
    if (!base.has(name) && others.every((there) => there === undefined || sameFacts(there, facts)))
      return name
  }
  return null
}

/** Appends the mark to the last part, or to the part that collides. Null when every name is too long. */
function conflictName(path: string, mark: string, index: PathIndex): string | null {
  const parts = path.split('/')
  for (let at = parts.length - 1; at >= 0; at -= 1) {
    const name = parts.map((part, index) => (index === at ? part + mark : part)).join('/')
    if (isCarriable(name) && !index.clashes(name)) return name
  }
  return null
}
