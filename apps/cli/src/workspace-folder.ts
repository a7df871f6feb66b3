/**
 * A folder that is a local copy of a workspace. A file in it records the version that the two last had in
 * common. With it, a merge knows which side changed a file:
 *
 *   common version ─┬─ the folder now ──┐
 *                   └─ the workspace now ┴─merge─▶ the folder, with both versions of what both changed
 *
 * Sandboxes wrote the content of the workspace, so it is untrusted: names are checked, links never followed.
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
  type MergeResult,
  readDirectory,
  type ReadDirectory,
  writeDirectory,
} from '@cofferdam/workspace-sync'
import { z } from 'zod'
import { jsonOf } from './api-connection.ts'
import { CommandFailure, systemCode } from './command.ts'
import type { Remote } from './workspace-remote.ts'

const STATE_FILE = '.cofferdam-workspace.json'
/** The longest record: it names 1,000 files with paths of 512 bytes and their metadata. */
const STATE_MAX = 1024 * 1024
/**
 * Every file is copied in both directions, even files that control programs outside of a sandbox, because the
 * folder's owner decides. Secrets are never copied.
 */
const RULES = compileRules([{ pattern: '**', direction: 'both', control: true }])

const stateSchema = z.object({
  tenant_id: z.string(),
  workspace: z.string(),
  version: z.int().min(0),
  files: z.record(z.string(), z.object({ sha256: z.string(), size: z.int(), mode: z.int() })),
})

/** The version that folder and workspace last had in common. 0: none. */
export interface Common {
  version: number
  manifest: Manifest
}

export interface WorkspaceOf {
  tenantId: string
  name: string
}

/** Throws `CommandFailure` when the folder belongs to another workspace, or its record is damaged. */
export async function readCommon(folder: string, { tenantId, name }: WorkspaceOf): Promise<Common> {
  const file = path.join(folder, STATE_FILE)
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw foreseen(error, folder)
  })
  if (text === null) return { version: 0, manifest: EMPTY_MANIFEST }
  const parsed = stateSchema.safeParse(text.length > STATE_MAX ? null : jsonOf(text))
  if (!parsed.success)
    throw new CommandFailure(
      `${file} is damaged. Remove it and pull again: of files that differ, both versions are kept.`,
    )
  const { tenant_id: tenant, workspace, version, files } = parsed.data
  if (tenant !== tenantId || workspace !== name)
    throw new CommandFailure(
      `${folder} belongs to the workspace ${workspace} of the tenant ${tenant}. Use another folder.`,
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
  // Written to another file and renamed, because a partial file would count as damaged.
  await using written = await open(`${file}.new`, 'w')
  await written.writeFile(`${JSON.stringify(state)}\n`)
  await written.sync()
  await rename(`${file}.new`, file)
}

/** The folder's files, and its entries that no workspace may contain. With `make`, creates the folder. */
export async function readFolder(folder: string, options: { make: boolean }): Promise<ReadDirectory> {
  try {
    if (options.make) await mkdir(folder, { recursive: true })
    const found = await readDirectory(folder, RULES)
    return { files: found.files.filter((file) => !isState(file.path)), refused: found.refused }
  } catch (error) {
    throw foreseen(error, folder)
  }
}

/** Turns errors that the user can fix into a `CommandFailure`. Returns others unchanged. */
function foreseen(error: unknown, folder: string): unknown {
  const code = systemCode(error)
  if (code === 'ENOENT') return new CommandFailure(`There is no folder ${folder}.`, { cause: error })
  const isOdd = code === 'ENOTDIR' || code === 'EEXIST'
  if (isOdd) return new CommandFailure(`${folder} is not a folder.`, { cause: error })
  if (code === 'EACCES')
    return new CommandFailure(
      `${folder} cannot be read completely: permission denied. Change its permissions, or use another ` +
        `folder.`,
      { cause: error },
    )
  return error
}

/** True for the path itself, and for every path below it. */
export const isAtOrBelow = (file: string, folder: string): boolean =>
  file === folder || file.startsWith(`${folder}/`)

/**
 * Whether the workspace is unchanged since the common version. The version number alone does not tell: a
 * workspace that was deleted and recreated counts from 1, and a push under the old number would overwrite it.
 */
export function isCommon(now: Remote, common: Common): boolean {
  const { changed, deleted } = diffManifests(common.manifest, manifestOf(ownFiles(now)))
  return now.version === common.version && changed.size + deleted.length === 0
}

/** The result of a pull. */
export type Pulled = Pick<MergeResult, 'applied' | 'conflicted'>

/**
 * Copies the workspace's changes into the folder and records the new common version. If a change cannot be
 * written, throws `CommandFailure` and writes nothing: a push after a partial pull would delete the rest.
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
      `${JSON.stringify(unfit.path)} cannot be written into ${folder} (${unfit.reason}). Nothing was ` +
        `changed.`,
    )
  const inTheWay = await standsInTheWay(folder, [...result.taken.keys()], host, refused)
  if (inTheWay !== undefined)
    throw new CommandFailure(
      `${JSON.stringify(inTheWay)} stands in the way of a file of the workspace. Move it and pull again. ` +
        `Nothing was changed.`,
    )
  const written: ProgramFile[] = [...result.taken].flatMap(([to, from]) => {
    const file = theirs.get(from)
    return file === undefined ? [] : [{ ...file, path: to }]
  })
  // A file that the user saves meanwhile stays, and `conflict` is thrown. The next pull then merges it.
  await writeDirectory(
    folder,
    { files: written, deleted: diffManifests(host, result.manifest).deleted },
    host,
  )
  await writeCommon(folder, of, { version: now.version, manifest })
  return result
}

/** Finds obstacles that the merge does not see at the path of a new file: links, secrets, empty folders. */
async function standsInTheWay(
  folder: string,
  taken: readonly string[],
  host: Manifest,
  refused: ReadDirectory['refused'],
): Promise<string | undefined> {
  for (const file of taken) {
    const left = refused.find(({ path: name }) => isAtOrBelow(file, name) || isAtOrBelow(name, file))
    if (left !== undefined) return left.path
    // A folder with files is no obstacle: its files are deleted first, and the folder with them.
    const there = await lstat(path.join(folder, file)).catch(() => null)
    if (there?.isDirectory() === true && ![...host.keys()].some((name) => isAtOrBelow(name, file)))
      return file
  }
  return undefined
}

/** The workspace's files, except those that would overwrite the record of the common version. */
const ownFiles = ({ files }: Remote): ProgramFile[] => files.filter((file) => !isState(file.path))

/** Ignores case, because on some file systems these names are one file. */
const isState = (file: string): boolean => file.toLowerCase().startsWith(STATE_FILE)
