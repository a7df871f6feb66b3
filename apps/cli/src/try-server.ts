/** Starts a private server in a temporary directory and stops it: the only sure answer to "can it be had here?". */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RunningServer } from '@cofferdam/embedded'

export interface ServerFinding {
  ok: boolean
  /** How it was found, or why it cannot be had (the message names the remedy). */
  found: string
}

/** Tries one of `startRedis` and `startPostgres`; leaves nothing behind. */
export async function tryServer(
  start: (options: { dataDir: string; durable: boolean }) => Promise<RunningServer>,
): Promise<ServerFinding> {
  const directory = await mkdtemp(join(tmpdir(), 'cofferdam-try-'))
  // Root's Postgres is another user where there are no user namespaces, and must be able to enter.
  await chmod(directory, 0o711)
  try {
    const server = await start({ dataDir: join(directory, 'data'), durable: false })
    await server.stop()
    return { ok: true, found: server.how }
  } catch (error) {
    return { ok: false, found: error instanceof Error ? error.message : String(error) }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
