/**
 * Takes the files that globs match out of the sandbox and stores them, with at most one file in memory. Names
 * each file that is left out, with the reason. The sandbox is not trusted about paths or sizes. The program
 * chooses the names, so they are redacted like its output.
 */
import { createHash } from 'node:crypto'
import {
  BOUNDS,
  isCofferdamError,
  pathSchema,
  programSource,
  type Artifact,
  type BlobKey,
  type BlobStore,
  type Entry,
  type Limits,
  type OmittedArtifact,
  type Outcome,
  type Program,
  type Sandbox,
  unlessAborted,
} from '@cofferdam/contract'
import type { ExecutorParts } from './attempt.ts'

export type StoredArtifact = Artifact & { ref: string }

export interface ArtifactOptions {
  sandbox: Pick<Sandbox, 'list' | 'read'>
  globs: readonly string[]
  /** Takes only files below this folder, and names them relative to it. Default: the work directory. */
  folder?: string
  limits: Pick<Limits, 'artifact_bytes' | 'artifacts_total_bytes' | 'artifact_count'>
  /** The backend puts the caller's program into the work directory. It is not an artifact. */
  program: Program
  blobs: BlobStore
  key: Omit<BlobKey, 'name'>
  redact: (text: string) => string
  /** Ends the collection early. Files that are stored by then are kept. */
  signal: AbortSignal
  onNotice: (message: string) => void
  onError: (error: unknown, message: string) => void
}

export interface CollectedArtifacts {
  stored: StoredArtifact[]
  /** At most `BOUNDS.artifactsOmitted`. */
  omitted: OmittedArtifact[]
  /** True if further files may match that are in neither list. */
  incomplete: boolean
  /** The error of the sandbox if it could not list its files. Undefined if it listed them. */
  failure?: unknown
}

/** For a request without artifacts, or a program that was stopped. */
export const NO_ARTIFACTS: CollectedArtifacts = { stored: [], omitted: [], incomplete: false }

type Omission = OmittedArtifact['reason']

/** The fields of an outcome that a collection fills. */
export const collectedPart = ({
  stored,
  omitted,
  incomplete,
}: CollectedArtifacts): Pick<Outcome, 'artifacts' | 'artifactsOmitted' | 'artifactsIncomplete'> => ({
  artifacts: stored,
  ...(omitted.length === 0 ? {} : { artifactsOmitted: omitted }),
  ...(incomplete ? { artifactsIncomplete: true } : {}),
})

/** Deletes the stored artifacts of an attempt whose result will come from another worker. Never rejects. */
export async function discardArtifacts(
  { blobs, log }: Pick<ExecutorParts, 'blobs' | 'log'>,
  { stored }: CollectedArtifacts,
): Promise<void> {
  for (const deletion of await Promise.allSettled(stored.map(({ ref }) => blobs.delete(ref))))
    if (deletion.status === 'rejected') log.warn({ err: deletion.reason }, 'an artifact could not be deleted')
}

/**
 * Never rejects. A file that cannot be taken is listed in `omitted` and does not change how the execution
 * ends.
 */
export async function collectArtifacts(options: ArtifactOptions): Promise<CollectedArtifacts> {
  const { globs, limits, program, signal, folder } = options
  const found: CollectedArtifacts = { stored: [], omitted: [], incomplete: false }
  if (globs.length === 0) return found
  const names = new Set<string>()
  const omit = (shown: string, { size }: Entry, reason: Omission): void => {
    if (found.omitted.length === BOUNDS.artifactsOmitted) found.incomplete = true
    else found.omitted.push({ path: shown.slice(0, BOUNDS.pathLength), size: sizeOf(size), reason })
  }
  const waiting = await listed(options, found)
  let room = limits.artifacts_total_bytes
  for (const entry of waiting) {
    const isFull = found.stored.length >= limits.artifact_count
    const name = folder === undefined ? entry.path : entry.path.slice(folder.length + 1)
    const shown = shownPath(options.redact(name), names)
    if (signal.aborted) omit(shown, entry, 'out_of_time')
    else if (!isSafe(entry.path)) omit(shown, entry, 'unsafe_name')
    else if (isFull && !mayBeProgram(program, entry)) omit(shown, entry, 'too_many')
    else {
      const taken = await take(options, entry, Math.min(limits.artifact_bytes, room))
      if (typeof taken !== 'string' && isProgram(program, entry, taken)) continue
      const stored = isFull
        ? 'too_many'
        : typeof taken === 'string'
          ? taken
          : await store(options, shown, taken)
      if (typeof stored === 'string') omit(shown, entry, stored)
      else {
        found.stored.push(stored)
        room -= stored.size
      }
    }
  }
  for (const { path, reason } of found.omitted) options.onNotice(`Artifact ${path} was left out: ${reason}.`)
  if (found.incomplete)
    options.onNotice('More files may match than the artifacts and those that were left out.')
  return found
}

/** The matching files, each path once. Marks `found` as incomplete if there may be more. */
async function listed(options: ArtifactOptions, found: CollectedArtifacts): Promise<Entry[]> {
  const { sandbox, globs, limits, signal, folder } = options
  // Ask for two more than both lists hold: one shows that there are more files, one may be the program
  // itself.
  const most = limits.artifact_count + BOUNDS.artifactsOmitted + 2
  try {
    const listing = await unlessAborted(sandbox.list(globs, most), signal)
    if (listing.partial === true || listing.length >= most) found.incomplete = true
    const entries = listing.slice(0, most).filter(({ path }) => isBelow(folder, path))
    return [...new Map(entries.map((entry) => [entry.path, entry])).values()]
  } catch (error) {
    if (!signal.aborted) options.onError(error, 'artifacts could not be listed')
    found.failure = error
    found.incomplete = true
    return []
  }
}

const isBelow = (folder: string | undefined, path: string): boolean =>
  folder === undefined || path.startsWith(`${folder}/`)

/**
 * Whether a file may be the program: it has the same size and is in no folder. Only the backend knows its
 * name.
 */
const mayBeProgram = (program: Program, { path, size }: Entry): boolean =>
  !path.includes('/') && size === Buffer.byteLength(programSource(program))

const isProgram = (program: Program, { path }: Entry, bytes: Uint8Array): boolean =>
  mayBeProgram(program, { path, size: bytes.length }) && Buffer.from(programSource(program)).equals(bytes)

/** Redaction can make different names equal, so later ones get a number. */
function shownPath(path: string, names: Set<string>): string {
  let shown = path
  for (let n = 2; names.has(shown); n += 1) shown = `${path}~${n}`
  names.add(shown)
  return shown
}

/**
 * Whether the path is valid in a request. U+FFFD stands for a byte that was not UTF-8, so the true name is
 * lost.
 */
const isSafe = (path: string): boolean => pathSchema.safeParse(path).success && !path.includes('\ufffd')

const sizeOf = (said: number): number => (Number.isSafeInteger(said) && said > 0 ? said : 0)

/** Returns the file's bytes, or why there are none. */
async function take(
  { sandbox, limits, signal }: ArtifactOptions,
  { path, size }: Entry,
  most: number,
): Promise<Uint8Array | Omission> {
  const tooLarge = (bytes: number): Omission =>
    bytes > limits.artifact_bytes ? 'too_large' : 'total_too_large'
  if (size > most) return tooLarge(size)
  try {
    const bytes = await unlessAborted(sandbox.read(path, most), signal)
    return bytes.length <= most ? bytes : tooLarge(bytes.length)
  } catch (error) {
    if (signal.aborted) return 'out_of_time'
    // The file grew after it was listed, or the listed size was wrong.
    const grew = isCofferdamError(error) && error.code === 'payload_too_large'
    return grew ? tooLarge(most + 1) : 'unreadable'
  }
}

async function store(
  { blobs, key, signal, onError }: ArtifactOptions,
  path: string,
  bytes: Uint8Array,
): Promise<StoredArtifact | Omission> {
  try {
    const ref = await unlessAborted(write(blobs, { ...key, name: `artifacts/${path}` }, bytes), signal)
    return { path, size: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex'), ref }
  } catch (error) {
    if (signal.aborted) return 'out_of_time'
    onError(error, `artifact ${path} could not be stored`)
    return 'not_stored'
  }
}

async function write(blobs: BlobStore, key: BlobKey, bytes: Uint8Array): Promise<string> {
  const sink = await blobs.create(key)
  try {
    await sink.write(bytes)
    return await sink.commit()
  } catch (error) {
    await sink.abort()
    throw error
  }
}
