/**
 * Takes the files that the request's globs name out of the sandbox and stores them, one at a time, so that at most
 * one file is in memory. What is over a bound is left out with a notice; the sandbox is not believed about paths
 * or sizes.
 */
import { createHash } from 'node:crypto'
import {
  BOUNDS,
  pathSchema,
  programSource,
  type Artifact,
  type BlobKey,
  type BlobStore,
  type Entry,
  type Program,
  type Sandbox,
  unlessAborted,
} from '@cofferdam/contract'

export type StoredArtifact = Artifact & { ref: string }

export interface ArtifactOptions {
  sandbox: Sandbox
  globs: readonly string[]
  /** What the caller wrote: the backend puts it into the work directory, and it is no artifact. */
  program: Program
  blobs: BlobStore
  key: Omit<BlobKey, 'name'>
  /** Ends the collection early; what was stored by then is kept. */
  signal: AbortSignal
  onNotice: (message: string) => void
  onError: (error: unknown, message: string) => void
}

/** Never rejects: an artifact that cannot be had is a notice, not an ending. */
export async function collectArtifacts(options: ArtifactOptions): Promise<StoredArtifact[]> {
  const stored: StoredArtifact[] = []
  if (options.globs.length === 0) return stored
  try {
    let total = 0
    for (const path of await listed(options)) {
      const bytes = await readBounded(options, path, BOUNDS.artifactsTotalBytes - total)
      if (bytes === null || isProgram(options.program, path, bytes)) continue
      total += bytes.length
      const artifact = await store(options, path, bytes)
      if (artifact !== null) stored.push(artifact)
    }
  } catch (error) {
    if (!options.signal.aborted) options.onError(error, 'artifacts could not be read')
    options.onNotice('The collection of artifacts ended early.')
  }
  return stored
}

async function listed({ sandbox, globs, signal, onNotice }: ArtifactOptions): Promise<string[]> {
  // One more than the bound, to see that there are more.
  const entries = await unlessAborted(sandbox.list(globs, BOUNDS.artifactCount + 1), signal)
  const paths = new Set(
    entries
      .slice(0, BOUNDS.artifactCount + 1)
      .filter(isSane)
      .map((entry) => entry.path),
  )
  if (paths.size > BOUNDS.artifactCount)
    onNotice(`More than ${BOUNDS.artifactCount} files match; the first ones are kept.`)
  return [...paths].slice(0, BOUNDS.artifactCount)
}

/** The program as it went in, under whatever name the backend gave it. */
function isProgram(program: Program, path: string, bytes: Uint8Array): boolean {
  return !path.includes('/') && Buffer.from(programSource(program)).equals(bytes)
}

const isSane = ({ path }: Entry): boolean => pathSchema.safeParse(path).success

async function readBounded(
  { sandbox, signal, onNotice }: ArtifactOptions,
  path: string,
  room: number,
): Promise<Uint8Array | null> {
  const most = Math.min(BOUNDS.artifactBytes, room)
  try {
    const bytes = await unlessAborted(sandbox.read(path, most), signal)
    if (bytes.length <= most) return bytes
    onNotice(`Artifact ${path} is larger than ${most} bytes and was left out.`)
  } catch {
    signal.throwIfAborted()
    onNotice(`Artifact ${path} could not be read within ${most} bytes and was left out.`)
  }
  return null
}

async function store(
  { blobs, key, signal, onNotice, onError }: ArtifactOptions,
  path: string,
  bytes: Uint8Array,
): Promise<StoredArtifact | null> {
  try {
    const ref = await unlessAborted(write(blobs, { ...key, name: `artifacts/${path}` }, bytes), signal)
    return { path, size: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex'), ref }
  } catch (error) {
    signal.throwIfAborted()
    onError(error, `artifact ${path} could not be stored`)
    onNotice(`Artifact ${path} could not be stored and was left out.`)
    return null
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
