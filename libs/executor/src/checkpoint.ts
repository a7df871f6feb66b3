/**
 * Saves files of an attempt for the next attempt: at intervals while the program runs, if the backend
 * supports it, and after a run that failed or was stopped (not cancelled), if its sandbox still answers.
 * Never changes how the attempt ends.
 */
import { BOUNDS, pathSchema, type ProgramFile, type Sandbox, unlessAborted } from '@cofferdam/contract'
import type { Clock } from './clock.ts'

/** What the caller keeps of one attempt for the next one. */
export interface Checkpoint {
  globs: readonly string[]
  /** Null: only at the end. */
  everyMs: number | null
  /** Files of an earlier attempt. They replace the request's own files of the same path. */
  restore: readonly ProgramFile[]
  save(files: readonly ProgramFile[]): Promise<void>
}

export interface CheckpointDeps {
  sandbox: Sandbox
  checkpoint: Checkpoint | undefined
  clock: Clock
  onNotice: (message: string) => void
  onError: (error: unknown, message: string) => void
}

export interface CheckpointKeeper extends AsyncDisposable {
  /** Saves the files of a program that has ended, from its sandbox. Never rejects. */
  atEnd(signal: AbortSignal): Promise<void>
}

/**
 * Copies at intervals until disposed. Disposal does not wait for the sandbox, which may never answer, but
 * still saves a copy that has arrived.
 */
export function keepCheckpoints(deps: CheckpointDeps): CheckpointKeeper {
  const { sandbox, checkpoint, clock, onNotice, onError } = deps
  const over = new AbortController()
  let copying: Promise<void> = Promise.resolve()
  let clear: () => void = () => undefined

  const failed = (error: unknown): void => {
    onError(error, 'a checkpoint could not be kept')
    onNotice('A checkpoint could not be kept.')
  }
  const copy = async (kept: Checkpoint): Promise<void> => {
    const bounds = { maxFiles: BOUNDS.checkpointFiles, maxBytes: BOUNDS.checkpointBytes }
    const asked = sandbox.snapshot?.({ globs: kept.globs, ...bounds }) ?? Promise.resolve([])
    // If the run ends meanwhile, this copy is given up, because `atEnd` saves the files.
    const files = await unlessAborted(asked, over.signal)
    if (files.length > 0) await kept.save(files)
  }
  const copyLater = (kept: Checkpoint, everyMs: number): void => {
    clear = clock.after(everyMs, () => {
      copying = copy(kept)
        // A sandbox that is ending fails its copies. The attempt's ending has the reason.
        .catch((error: unknown) => (over.signal.aborted ? undefined : failed(error)))
        .then(() => {
          if (!over.signal.aborted) copyLater(kept, everyMs)
        })
    })
  }
  const stop = async (): Promise<void> => {
    over.abort()
    clear()
    await copying
  }

  if (checkpoint !== undefined && checkpoint.everyMs !== null && sandbox.snapshot !== undefined)
    copyLater(checkpoint, checkpoint.everyMs)
  return {
    async atEnd(signal) {
      if (checkpoint === undefined) return
      await stop()
      try {
        const files = await readAll(sandbox, checkpoint.globs, signal)
        if (files.length > 0) await unlessAborted(checkpoint.save(files), signal)
      } catch (error) {
        failed(error)
      }
    },
    [Symbol.asyncDispose]: stop,
  }
}

async function readAll(
  sandbox: Sandbox,
  globs: readonly string[],
  signal: AbortSignal,
): Promise<ProgramFile[]> {
  const entries = await unlessAborted(sandbox.list(globs, BOUNDS.checkpointFiles), signal)
  const files: ProgramFile[] = []
  let left: number = BOUNDS.checkpointBytes
  for (const { path, size } of entries.slice(0, BOUNDS.checkpointFiles)) {
    if (size > left || !pathSchema.safeParse(path).success) continue
    const bytes = await unlessAborted(sandbox.read(path, left), signal)
    left -= bytes.length
    if (left < 0) break
    files.push({ path, bytes })
  }
  return files
}
