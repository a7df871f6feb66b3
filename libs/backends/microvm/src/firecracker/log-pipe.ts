/**
 * The VMM’s log is a pipe. It is always read, and only its last 8 KiB are kept, so neither a noisy VMM nor a
 * noisy guest fills a disk. The pipe also ends when the VMM does.
 */
import { constants, open as openFile } from 'node:fs'
import { open } from 'node:fs/promises'
import { Socket } from 'node:net'
import { promisify } from 'node:util'

/** Opens a plain descriptor, which the stream closes. A FileHandle would close it a second time. */
const openRaw = promisify(openFile)

const KEPT_BYTES = 8192

export interface LogPipe {
  /** The last 8 KiB. */
  tail(): string
  /** To be called when the VMM has opened its end. From then on the pipe ends with the VMM. */
  isWritten(): Promise<void>
  /** Resolves when the last writer is gone, or after `close`. */
  readonly ended: Promise<void>
  close(): Promise<void>
}

export async function openLogPipe(path: string): Promise<LogPipe> {
  // A pipe without a writer ends at once, so this process holds a writer until the VMM has opened its own.
  const holder = await open(path, constants.O_RDWR | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  const fd = await openRaw(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW).catch(
    async (error: unknown) => {
      await holder.close()
      throw error
    },
  )
  const socket = new Socket({ fd, readable: true, writable: false })
  let kept = Buffer.alloc(0)
  let held: Promise<void> | null = null
  const letGo = (): Promise<void> => (held ??= holder.close())
  const ended = Promise.withResolvers<void>()
  socket.on('data', (chunk: Buffer) => {
    kept = Buffer.concat([kept, chunk]).subarray(-KEPT_BYTES)
  })
  socket.once('close', () => ended.resolve())
  socket.on('error', () => {})
  return {
    tail: () => kept.toString('utf8').trim(),
    isWritten: letGo,
    ended: ended.promise,
    async close() {
      socket.destroy()
      await letGo()
    },
  }
}
