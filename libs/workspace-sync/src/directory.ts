/** Reads a workspace from a local directory without following links (open-below.ts). */
import { constants } from 'node:fs'
import { open, readdir, type FileHandle } from 'node:fs/promises'
import { CofferdamError, type ProgramFile } from '@cofferdam/contract'
import { DEFAULT_ARCHIVE_LIMITS, MAX_FOLDER_ENTRIES, type ArchiveLimits } from './limits.ts'
import { below, openFolder, openRoot } from './open-below.ts'
import { isCarriable } from './path-index.ts'
import type { CompiledRules, RuleRefusal } from './rules.ts'

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

/** Reasons that apply to a whole folder: it is skipped with everything in it. */
const WITH_CONTENTS: readonly string[] = ['too_deep', 'never_list', 'bad_name']

export interface ReadDirectory {
  files: ProgramFile[]
  /** Skipped entries with the reason: rules, links and devices, names that a workspace cannot have. */
  refused: { path: string; reason: RuleRefusal | 'not_a_file' | 'bad_name' }[]
}

/** Throws `payload_too_large` when the files exceed the limits of a workspace. Never reads only a part. */
export async function readDirectory(
  root: string,
  rules: CompiledRules,
  limits: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS,
): Promise<ReadDirectory> {
  const found: ReadDirectory = { files: [], refused: [] }
  let [total, seen] = [0, 0]
  const visit = async (folder: FileHandle, prefix: string): Promise<void> => {
    for (const entry of (await readdir(below(folder), { withFileTypes: true })).toSorted(byName)) {
      const path = prefix + entry.name
      seen += 1
      if (seen > MAX_FOLDER_ENTRIES + limits.entries)
        throw tooLarge(`The directory holds more than ${MAX_FOLDER_ENTRIES} entries.`)
      const refusal = isCarriable(path) ? rules.refusesIn(path) : 'bad_name'
      if (entry.isDirectory()) {
        // A folder that no rule allows can contain files that a rule allows.
        if (refusal !== null && WITH_CONTENTS.includes(refusal)) found.refused.push({ path, reason: refusal })
        else {
          await using inner = await openFolder(folder, entry.name)
          await visit(inner, `${path}/`)
        }
      } else if (refusal !== null) found.refused.push({ path, reason: refusal })
      else if (!entry.isFile()) found.refused.push({ path, reason: 'not_a_file' })
      else {
        const file = await readFileBelow(folder, entry.name, path, limits)
        total += file.bytes.length
        found.files.push(file)
        if (total > limits.totalBytes || found.files.length > limits.entries)
          throw tooLarge(`The files together are larger than a workspace may hold (at ${path}).`)
      }
    }
  }
  await using handle = await openRoot(root)
  await visit(handle, '')
  return found
}

/** Reads one file of an open folder. Throws ENOENT, ELOOP for a link, or `conflict` if it changed. */
export async function readFileBelow(
  folder: FileHandle,
  name: string,
  path: string,
  limits: ArchiveLimits,
): Promise<ProgramFile> {
  // Not blocking, because opening a FIFO would wait for its writer.
  await using file = await open(`${below(folder)}/${name}`, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  const stat = await file.stat()
  if (!stat.isFile()) throw new CofferdamError('conflict', `${path} changed while it was read.`)
  if (stat.size > limits.fileBytes) throw tooLarge(`${path} is larger than ${limits.fileBytes} bytes.`)
  // Reading one byte more than expected shows whether it grew.
  const room = Buffer.alloc(Math.min(stat.size, limits.fileBytes) + 1)
  let length = 0
  for (;;) {
    const { bytesRead } = await file.read(room, length, room.length - length, length)
    length += bytesRead
    if (bytesRead === 0) break
    if (length === room.length) throw new CofferdamError('conflict', `${path} changed while it was read.`)
  }
  return {
    path,
    bytes: room.subarray(0, length),
    ...((stat.mode & 0o100) === 0 ? {} : { executable: true }),
  }
}

const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1)
const tooLarge = (message: string) => new CofferdamError('payload_too_large', message)
