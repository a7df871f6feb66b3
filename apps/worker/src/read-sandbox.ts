/**
 * What a sandbox holds of a workspace. The sandbox is not believed: not about paths, sizes or how many files there are. What
 * is not read is refused by name and taken for unchanged, so that nothing is deleted for not having been looked at.
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
import { factsOf, type CompiledRules } from '@cofferdam/workspace-sync'

/** As many again as a workspace may hold: a program may make files that the rules refuse. */
const MAX_ENTRIES = 2 * BOUNDS.workspaceFiles
/** What was made and does not fit is refused by the merge, which wants to know it. */
const MAX_BYTES = 2 * BOUNDS.workspaceBytes
/** Of links that a program made; a package manager makes hundreds. */
const LINKS_NAMED = 100
/** Folders of tasks (tests, installs): the executor's own. */
const OWN_FOLDER = /^\.exe_[0-9a-f]{32}\//

export interface ReadSandbox {
  manifest: Manifest
  bytes: ReadonlyMap<string, Uint8Array>
  refused: { path: string; reason: string }[]
}

/** What was put in beside the workspace: as long as it is as it came, it is no result. */
export interface Inputs {
  /** By name and size, before its bytes are known. */
  mayBe(path: string, size: number): boolean
  are(path: string, bytes: Uint8Array): boolean
}

export interface ReadOptions {
  sandbox: Sandbox
  /** What it was given. */
  base: Manifest
  rules: CompiledRules
  inputs: Inputs
  signal: AbortSignal
}

/** Throws `payload_too_large` when there are more files than can be told apart from deleted ones. */
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
  for (const { path, size } of entries) {
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
      // Whether it changed is told by its size alone: what may not come out is not read.
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
        // The mode of what it was given stays: sandboxes tell none.
        const mode = base.get(path)?.mode ?? 0o644
        manifest.set(path, { ...factsOf({ bytes: content }), mode })
        bytes.set(path, content)
      }
    }
  }
  const links = (await sandbox.links?.(['**'], LINKS_NAMED)) ?? []
  for (const { path } of links)
    if (!base.has(path) && !OWN_FOLDER.test(path)) leaveOut(path.slice(0, BOUNDS.pathLength), 'not_a_file')
  const listed = entries.map(({ path }) => path)
  for (const path of base.keys()) {
    signal.throwIfAborted()
    if (manifest.has(path) || listed.some((other) => other === path || other.startsWith(`${path}/`))) continue
    if (await isSomethingElse(sandbox, path)) leaveOut(path, 'not_a_file')
  }
  return { manifest, bytes, refused }
}

/**
 * What is no regular file stands in no list: a link that a program put in a file's place is not the file's
 * end.
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
