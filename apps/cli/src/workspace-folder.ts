/**
 * A folder that stands for a workspace. A file in it says which version the two last had in common, so that what changed on either
 * side since is known from what did not:
 *
 *   common version ─┬─ the folder now ──┐
 *                   └─ the workspace now ┴─merge─▶ the folder, with both versions of what both changed
 *
 * What the workspace holds was written by sandboxes and is believed in nothing: names are checked, links are never followed.
 */
import { lstat, mkdir, open, readFile, rename } from 'node:fs/promises'
import path from 'node:path'
import type { FileFacts, Manifest, ProgramFile } from '@cofferdam/contract'
import {
  compileRules,
  diffManifests,
  EMPTY_MANIFEST,
  manifestOf,
  merge,
  readDirectory,
  writeDirectory,
  type MergeResult,
  type ReadDirectory,
} from '@cofferdam/workspace-sync'
import { z } from 'zod'
import { CommandFailure } from './command-failure.ts'
import type { Remote } from './workspace-remote.ts'

const STATE_FILE = '.cofferdam-workspace.json'
/** 1,000 files with paths of 512 bytes, and their facts. */
const STATE_MAX = 1024 * 1024
/** All goes both ways here: the person whose folder it is decides, not a sandbox. Secrets stay out all the same. */
const RULES = compileRules([{ pattern: '**', direction: 'both', control: true }])

const stateSchema = z.object({
  tenant_id: z.string(),
  workspace: z.string(),
  version: z.int().min(0),
  files: z.record(z.string(), z.object({ sha256: z.string(), size: z.int(), mode: z.int() })),
})

/** What folder and workspace last had in common; version 0 for nothing. */
export interface Common {
  version: number
  manifest: Manifest
}

export interface WorkspaceOf {
  tenantId: string
  name: string
}

/** Throws CommandFailure when the folder stands for another workspace, or its file says nothing. */
export async function readCommon(folder: string, { tenantId, name }: WorkspaceOf): Promise<Common> {
  const file = path.join(folder, STATE_FILE)
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw foreseen(error, folder)
  })
  if (text === null) return { version: 0, manifest: EMPTY_MANIFEST }
  const parsed = stateSchema.safeParse(text.length > STATE_MAX ? null : jsonOf(text))
  if (!parsed.success)
    throw new CommandFailure(`${file} is damaged: remove it, and what differs is kept twice.`)
  const { tenant_id: tenant, workspace, version, files } = parsed.data
  if (tenant !== tenantId || workspace !== name)
    throw new CommandFailure(
      `${folder} stands for the workspace ${workspace} of ${tenant}: use another folder.`,
    )
  return { version, manifest: new Map<string, FileFacts>(Object.entries(files)) }
}

export async function writeCommon(
  folder: string,
  of: WorkspaceOf,
  { version, manifest }: Common,
): Promise<void> {
  const state = { tenant_id: of.tenantId, workspace: of.name, version, files: Object.fromEntries(manifest) }
  const file = path.join(folder, STATE_FILE)
  // Aside and renamed: half of it would be taken for damage.
  await using written = await open(`${file}.new`, 'w')
  await written.writeFile(`${JSON.stringify(state)}\n`)
  await written.sync()
  await rename(`${file}.new`, file)
}

/** The folder's files, and what of it no workspace carries. Makes the folder with `make`. */
export async function readFolder(folder: string, options: { make: boolean }): Promise<ReadDirectory> {
  try {
    if (options.make) await mkdir(folder, { recursive: true })
    const found = await readDirectory(folder, RULES)
    return { files: found.files.filter((file) => !isState(file.path)), refused: found.refused }
  } catch (error) {
    throw foreseen(error, folder)
  }
}

/** What the person at the keyboard can mend; the rest passes as it is. */
function foreseen(error: unknown, folder: string): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : ''
  if (code === 'ENOENT') return new CommandFailure(`There is no folder ${folder}.`, { cause: error })
  const isOdd = code === 'ENOTDIR' || code === 'EEXIST'
  if (isOdd) return new CommandFailure(`${folder} is no folder.`, { cause: error })
  if (code === 'EACCES')
    return new CommandFailure(`${folder} cannot be read whole: permission denied.`, { cause: error })
  return error
}

/** True for the path itself, and for what lies below it where it is a folder. */
export const isAtOrBelow = (file: string, folder: string): boolean =>
  file === folder || file.startsWith(`${folder}/`)

/**
 * True when the workspace is as the two had it last. The version alone does not tell: one that was removed and made again counts
 * from 1 again, and a push under the old number would overwrite it.
 */
export function isCommon(now: Remote, common: Common): boolean {
  const { changed, deleted } = diffManifests(common.manifest, manifestOf(ownFiles(now)))
  return now.version === common.version && changed.size + deleted.length === 0
}

/** What became of a pull. */
export type Pulled = Pick<MergeResult, 'applied' | 'conflicted'>

/**
 * Brings the workspace's changes into the folder, and keeps what the two have in common now. Throws CommandFailure, with nothing
 * written, when not all of them can be: a push after half of them would delete the rest.
 */
export async function pullInto(
  folder: string,
  of: WorkspaceOf,
  common: Common,
  now: Remote,
): Promise<Pulled> {
  const taken = ownFiles(now)
  const manifest = manifestOf(taken)
  const { files, refused } = await readFolder(folder, { make: true })
  const theirs = new Map(taken.map((file) => [file.path, file]))
  const host = manifestOf(files)
  const result = merge({
    base: common.manifest,
    host,
    sandbox: manifest,
    rules: RULES,
    onConflict: 'keep-both',
    job: `v${now.version}`,
  })
  const [unfit] = result.refused
  if (unfit !== undefined)
    throw new CommandFailure(
      `${JSON.stringify(unfit.path)} cannot be taken into ${folder} (${unfit.reason}). Nothing was changed.`,
    )
  const inTheWay = await standsInTheWay(folder, [...result.taken.keys()], host, refused)
  if (inTheWay !== undefined)
    throw new CommandFailure(
      `${JSON.stringify(inTheWay)} stands in the way of the workspace's file: move it aside. Nothing was changed.`,
    )
  const written: ProgramFile[] = [...result.taken].flatMap(([to, from]) => {
    const file = theirs.get(from)
    return file === undefined ? [] : [{ ...file, path: to }]
  })
  // What its owner saves meanwhile is seen by the next pull.
  await writeDirectory(
    folder,
    { files: written, deleted: diffManifests(host, result.manifest).deleted },
    host,
  )
  await writeCommon(folder, of, { version: now.version, manifest })
  return result
}

/** What is neither merged nor seen by the merge, at a place that a file is to have: links, secrets, empty folders. */
async function standsInTheWay(
  folder: string,
  taken: readonly string[],
  host: Manifest,
  refused: ReadDirectory['refused'],
): Promise<string | undefined> {
  for (const file of taken) {
    const left = refused.find(({ path: name }) => isAtOrBelow(file, name) || isAtOrBelow(name, file))
    if (left !== undefined) return left.path
    // With files in it, these are deleted first, and the folder with them.
    const there = await lstat(path.join(folder, file)).catch(() => null)
    if (there?.isDirectory() === true && ![...host.keys()].some((name) => isAtOrBelow(name, file)))
      return file
  }
  return undefined
}

/** Without what would take the place of the file that says what the two have in common. */
const ownFiles = ({ files }: Remote): ProgramFile[] => files.filter((file) => !isState(file.path))

/** In any spelling: on some file systems they are one file. */
const isState = (file: string): boolean => file.toLowerCase().startsWith(STATE_FILE)

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
