/** Waits for a file to change, also when an editor replaces it by another. */
import { watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import path from 'node:path'

/** Editors write, rename and touch in one go: what follows within this is the same change. */
const SETTLE_MS = 50

/** What distinguishes one content of a file from the next without reading it; null while it is not there. */
export async function stampOf(file: string): Promise<string | null> {
  try {
    const { mtimeMs, size, ino } = await stat(file)
    return `${mtimeMs} ${size} ${ino}`
  } catch {
    return null
  }
}

/** True as soon as the file is another than at `before` (also when it is already); false when `stop` aborts first. */
export async function changeOf(file: string, before: string | null, stop: AbortSignal): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>()
  const look = async (): Promise<void> => {
    const now = await stampOf(file)
    // Gone for a moment while it is replaced: the next event brings it back.
    if (now !== null && now !== before) resolve(true)
  }
  const lookSoon = (): void => {
    setTimeout(() => void look().catch(reject), SETTLE_MS)
  }
  const watcher = watch(path.dirname(file), (_, name) => {
    if (name === path.basename(file)) lookSoon()
  })
  watcher.on('error', reject)
  const onStop = (): void => resolve(false)
  stop.addEventListener('abort', onStop)
  if (stop.aborted) onStop()
  // From here on no change is missed; one that came before is seen now.
  lookSoon()
  try {
    return await promise
  } finally {
    watcher.close()
    stop.removeEventListener('abort', onStop)
  }
}
