/**
 * The file operation `collect`: every regular file below a folder of the session becomes an artifact. Limits,
 * and reasons for files that are left out, are those of a program's artifacts.
 */
import { BOUNDS, type Outcome, type Sandbox } from '@cofferdam/contract'
import { collectArtifacts, collectedPart, discardArtifacts } from './artifacts.ts'
import { blobKeyOf, listeners, type AttemptState } from './attempt-state.ts'

interface FolderToCollect {
  sandbox: Sandbox
  /** A missing folder has no files. */
  folder: string
  /** Match at least everything below the folder. Matching files outside of the folder are left out. */
  globs: readonly string[]
  /** Programs chose the names. */
  redact: (text: string) => string
  /** When it aborts at the deadline, the files that are already stored are kept. */
  signal: AbortSignal
}

type Collected = Pick<Outcome, 'artifacts' | 'artifactsOmitted' | 'artifactsIncomplete' | 'collectedFrom'>

/**
 * Throws if the sandbox could not be listed, and throws the reason of the attempt's own signal if that
 * aborted. Before it throws, it deletes the stored artifacts, because another worker may repeat the
 * operation.
 */
export async function collectFolder(
  state: AttemptState,
  { sandbox, folder, globs, redact, signal }: FolderToCollect,
): Promise<Collected> {
  const { parts, attempt } = state
  const { limits, program } = attempt.request
  const collected = await collectArtifacts({
    sandbox,
    globs,
    folder,
    limits,
    program,
    blobs: parts.blobs,
    key: blobKeyOf(attempt),
    redact,
    signal,
    ...listeners(state),
  })
  try {
    attempt.signal.throwIfAborted()
    if (collected.failure !== undefined) throw collected.failure
  } catch (error) {
    await discardArtifacts(parts, collected)
    throw error
  }
  return { ...collectedPart(collected), collectedFrom: redact(folder).slice(0, BOUNDS.pathLength) }
}
