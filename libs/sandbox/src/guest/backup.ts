/**
 * Copies of files that are asked for while a program runs (B): h path, d bytes, x (this file does not count), e end. The
 * answer is bounded by what was asked for, whatever the guest sends.
 */
import { pathSchema, type CofferdamError, type ProgramFile } from '@cofferdam/contract'
import { encodeFrame, violation } from './protocol.ts'

export interface BackupRequest {
  globs: readonly string[]
  maxFiles: number
  maxBytes: number
}

export interface Backup {
  readonly files: Promise<ProgramFile[]>
  /** Takes a B frame; true at the end. Throws `protocol_violation` beyond what was asked for. */
  take(payload: Buffer): boolean
  abandon(reason: CofferdamError): void
}

/** The frame that asks. */
export function backupFrame({ globs, maxFiles, maxBytes }: BackupRequest): Buffer {
  const head = Buffer.alloc(8)
  head.writeUInt32LE(maxFiles, 0)
  head.writeUInt32LE(maxBytes, 4)
  return encodeFrame('B', Buffer.concat([head, Buffer.from(globs.join('\0'))]))
}

export function createBackup({ maxFiles, maxBytes }: BackupRequest): Backup {
  const settled = Promise.withResolvers<ProgramFile[]>()
  settled.promise.catch(() => {})
  const done: ProgramFile[] = []
  let open: { path: string; chunks: Buffer[] } | null = null
  let bytes = 0
  let heads = 0

  const close = (): void => {
    if (open !== null && pathSchema.safeParse(open.path).success)
      done.push({ path: open.path, bytes: Buffer.concat(open.chunks) })
    open = null
  }
  return {
    files: settled.promise,
    take(payload) {
      const body = payload.subarray(1)
      switch (String.fromCharCode(payload[0] ?? 0)) {
        case 'h':
          close()
          heads += 1
          if (heads > maxFiles || body.length > 4096) throw violation('more files than asked for')
          open = { path: body.toString('utf8'), chunks: [] }
          return false
        case 'd':
          bytes += body.length
          if (open === null || bytes > maxBytes) throw violation('more bytes of files than asked for')
          // A copy: the frame is a window on the stream's chunk.
          open.chunks.push(Buffer.from(body))
          return false
        case 'x':
          open = null
          return false
        case 'e':
          close()
          settled.resolve(done)
          return true
        default:
          throw violation('frame B has another shape')
      }
    },
    abandon: (reason) => settled.reject(reason),
  }
}
