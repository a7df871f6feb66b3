/**
 * A folder that stands for a workspace. A file in it says which version the two last had in common, so that what changed on either
 * side since is known from what did not:
 *
 *   common version ─┬─ the folder now ──┐
 *                   └─ the workspace now ┴─merge─▶ the folder, with both versions of what both changed
 *
 * What the workspace holds was written by sandboxes and is believed in nothing: names are checked, links are never followed.
 */
import { mkdir, open, readFile, rename } from 'node:fs/promises'
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
    throw error
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
  if (options.make) await mkdir(folder, { recursive: true })
  const found = await readDirectory(folder, RULES)
  return { files: found.files.filter((file) => !isState(file.path)), refused: found.refused }
}

/** True for the path itself, and for what lies below it where it is a folder. */
export const isAtOrBelow = (file: string, folder: string): boolean =>
  file === folder || file.startsWith(`${folder}/`)

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
  const remote = { ...now, files: now.files.filter((file) => !isState(file.path)) }
  const manifest = manifestOf(remote.files)
  const { files, refused } = await readFolder(folder, { make: true })
  const theirs = new Map(remote.files.map((file) => [file.path, file]))
  const host = manifestOf(files)
  const result = merge({
    base: common.manifest,
    host,
    sandbox: manifest,
    rules: RULES,
    onConflict: 'keep-both',
    job: `v${remote.version}`,
  })
  const [unfit] = result.refused
  if (unfit !== undefined)
    throw new CommandFailure(
      `${JSON.stringify(unfit.path)} cannot be taken into ${folder} (${unfit.reason}). Nothing was changed.`,
    )
  const inTheWay = refused.find(({ path: left }) =>
    [...result.taken.keys()].some((taken) => isAtOrBelow(taken, left)),
  )
  if (inTheWay !== undefined)
    throw new CommandFailure(
      `${JSON.stringify(inTheWay.path)} stands in the way of the workspace's file: move it aside. Nothing was changed.`,
    )
  const written: ProgramFile[] = [...result.taken].flatMap(([to, from]) => {
    const file = theirs.get(from)
    return file === undefined ? [] : [{ ...file, path: to }]
  })
  await writeDirectory(folder, { files: written, deleted: diffManifests(host, result.manifest).deleted })
  await writeCommon(folder, of, { version: remote.version, manifest })
  return result
}

/** In any spelling: on some file systems they are one file. */
const isState = (file: string): boolean => file.toLowerCase().startsWith(STATE_FILE)

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
