/**
 * Reads the files of a workspace from a sandbox, which is not trusted about paths, sizes or the number of
 * files. A file that is not read is reported as refused and counts as unchanged, so that it is not deleted.
 */
import {
  BOUNDS,
  CofferdamError,
  isCofferdamError,
  pathSchema,
  type FileFacts,
  type Manifest,
  type Sandbox,
} from '@cofferdam/contract'
import { createPauses, factsOf, type CompiledRules } from '@cofferdam/workspace-sync'

/** Twice the limit of a workspace, because a program may create files that the rules refuse. */
const MAX_ENTRIES = 2 * BOUNDS.workspaceFiles
/** More than a workspace may have, so that the merge can refuse what does not fit. */
const MAX_BYTES = 2 * BOUNDS.workspaceBytes
/** Links that are reported. A package manager creates hundreds. */
const LINKS_NAMED = 100
/** The executor's own folders for test runs and installs. */
const OWN_FOLDER = /^\.exe_[0-9a-f]{32}\//

export interface ReadSandbox {
  manifest: Manifest
  bytes: ReadonlyMap<string, Uint8Array>
  refused: { path: string; reason: string }[]
}

/** Files that were written in addition to the workspace. They are no results while they are unchanged. */
export interface Inputs {
  /** Whether a file may be an input, by name and size. */
  mayBe(path: string, size: number): boolean
  are(path: string, bytes: Uint8Array): boolean
}

export interface ReadOptions {
  sandbox: Sandbox
  /** The files that the sandbox was given. */
  base: Manifest
  rules: CompiledRules
  inputs: Inputs
  signal: AbortSignal
}

/** Throws `payload_too_large` for too many files to list, because missing ones would look deleted. */
export async function readSandbox({
  sandbox,
  base,
  rules,
  inputs,
  signal,
}: ReadOptions): Promise<ReadSandbox> {
  const entries = await sandbox.list(['**'], MAX_ENTRIES + 1)
  if (entries.length > MAX_ENTRIES || entries.partial === true)
    throw new CofferdamError('payload_too_large', `The program left more than ${MAX_ENTRIES} files.`)
  const manifest = new Map<string, FileFacts>()
  const bytes = new Map<string, Uint8Array>()
  const refused: ReadSandbox['refused'] = []
  let left: number = MAX_BYTES
  const leaveOut = (path: string, reason: string): void => {
    refused.push({ path, reason })
    const before = base.get(path)
    if (before !== undefined) manifest.set(path, before)
  }
  const read = (path: string, room: number): Promise<Uint8Array | null> =>
    sandbox.read(path, Math.min(BOUNDS.workspaceFileBytes, room)).catch((error: unknown) => {
      signal.throwIfAborted()
      if (isCofferdamError(error) && ['payload_too_large', 'not_found'].includes(error.code)) return null
      throw error
    })
  const pause = createPauses()
  for (const { path, size } of entries) {
    await pause()
    signal.throwIfAborted()
    if (OWN_FOLDER.test(path) || manifest.has(path)) continue
    if (!pathSchema.safeParse(path).success) {
      leaveOut(path.slice(0, BOUNDS.pathLength), 'bad_name')
      continue
    }
    if (!base.has(path) && inputs.mayBe(path, size)) {
      const input = await read(path, BOUNDS.workspaceFileBytes)
      if (input !== null && inputs.are(path, input)) continue
    }
    if (rules.refusesOut(path) !== null) {
      // The rules forbid this file to leave the sandbox, so it is not read. Only its size shows whether it
      // changed.
      const before = base.get(path)
      if (before?.size === size) manifest.set(path, before)
      else leaveOut(path, rules.refusesOut(path) ?? 'rule')
    } else if (size > BOUNDS.workspaceFileBytes) leaveOut(path, 'file_too_large')
    else {
      const content = await read(path, left)
      if (content === null || content.length > left)
        leaveOut(path, left < size ? 'total_too_large' : 'unreadable')
      else {
        left -= content.length
        // The old mode is kept, because sandboxes do not report modes.
        const mode = base.get(path)?.mode ?? 0o644
        manifest.set(path, { ...factsOf({ bytes: content }), mode })
        bytes.set(path, content)
      }
    }
  }
  const links = (await sandbox.links?.(['**'], LINKS_NAMED)) ?? []
  for (const { path } of links)
    if (!base.has(path) && !OWN_FOLDER.test(path)) leaveOut(path.slice(0, BOUNDS.pathLength), 'not_a_file')
  const isListed = finderOf(entries.map(({ path }) => path))
  for (const path of base.keys()) {
    await pause()
    signal.throwIfAborted()
    if (manifest.has(path) || isListed(path)) continue
    if (await isSomethingElse(sandbox, path)) leaveOut(path, 'not_a_file')
  }
  return { manifest, bytes, refused }
}

/**
 * Returns a function that tells whether a path is in `paths`, or is a folder of one of them. It is fast even
 * for thousands of paths.
 */
function finderOf(paths: readonly string[]): (path: string) => boolean {
  const known = new Set(paths)
  const sorted = paths.toSorted((a, b) => (a < b ? -1 : 1))
  return (path) => {
    if (known.has(path)) return true
    // In the sorted list, the paths of a folder follow each other. So the first path that is not less than
    // the prefix decides.
    const prefix = `${path}/`
    let [from, to] = [0, sorted.length]
    while (from < to) {
      const middle = (from + to) >> 1
      if ((sorted[middle] ?? '') < prefix) from = middle + 1
      else to = middle
    }
    return sorted[from]?.startsWith(prefix) === true
  }
}

/**
 * True when something other than a regular file has this path. The list of files leaves such an entry out,
 * but it was not deleted.
 */
async function isSomethingElse(sandbox: Sandbox, path: string): Promise<boolean> {
  try {
    await sandbox.read(path, 1)
    return true
  } catch (error) {
    if (!isCofferdamError(error)) throw error
    if (error.code === 'not_found') return false
    if (error.code === 'invalid_request' || error.code === 'payload_too_large') return true
    throw error
  }
}
