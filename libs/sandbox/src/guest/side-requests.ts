/**
 * Requests that do not wait for the end of a run, one of each kind at a time: copies of files (B), and what
 * the sandbox has used so far (P, answered by A).
 *
 * The first byte of a B frame says what follows: h a path, d bytes, x nothing (ignore this file), e nothing
 * (the end). The request bounds the answer, whatever the guest sends.
 */
import { CofferdamError, pathSchema, type ProgramFile, type Usage } from '@cofferdam/contract'
import { parseUsage } from './evidence.ts'
import type { SendFrames } from './frame-writer.ts'
import { createGrowingBytes, type GrowingBytes } from './growing-bytes.ts'
import { encodeFrame, violation } from './protocol.ts'

export interface BackupRequest {
  globs: readonly string[]
  maxFiles: number
  maxBytes: number
}

export interface SideRequests {
  /** Rejects with `conflict` while another copy is in flight. */
  snapshot(request: BackupRequest): Promise<ProgramFile[]>
  /** Calls in flight share one answer. */
  usage(): Promise<Usage>
  /** Takes B. Throws `protocol_violation`, as `pong` does. */
  copied(payload: Buffer): void
  /** Takes A. */
  pong(payload: Buffer): void
  abandon(reason: CofferdamError): void
}

/** `write` sends a frame that need not wait for the frames of a job. */
export function createSideRequests(send: SendFrames, write: (frame: Buffer) => void): SideRequests {
  let backup: Backup | null = null
  let ping: PromiseWithResolvers<Usage> | null = null
  return {
    async snapshot(request) {
      if (backup !== null)
        throw new CofferdamError('conflict', 'A copy is already under way. Try again when it has ended.')
      const mine = createBackup(request)
      backup = mine
      await send([backupFrame(request)])
      return await mine.files
    },
    usage() {
      if (ping === null) {
        ping = Promise.withResolvers()
        ping.promise.catch(() => {})
        write(encodeFrame('P'))
      }
      return ping.promise
    },
    copied(payload) {
      if (backup === null) throw violation('frame B without a request')
      if (backup.take(payload)) backup = null
    },
    pong(payload) {
      if (ping === null) throw violation('frame A without a ping')
      ping.resolve(parseUsage(payload))
      ping = null
    },
    abandon(reason) {
      backup?.abandon(reason)
      ping?.reject(reason)
      backup = ping = null
    },
  }
}

interface Backup {
  readonly files: Promise<ProgramFile[]>
  /**
   * Takes one B frame. True when it ends the copy. Throws `protocol_violation` if the guest sends more than
   * was requested.
   */
  take(payload: Buffer): boolean
  abandon(reason: CofferdamError): void
}

function backupFrame({ globs, maxFiles, maxBytes }: BackupRequest): Buffer {
  const head = Buffer.alloc(8)
  head.writeUInt32LE(maxFiles, 0)
  head.writeUInt32LE(maxBytes, 4)
  return encodeFrame('B', Buffer.concat([head, Buffer.from(globs.join('\0'))]))
}

function createBackup({ maxFiles, maxBytes }: BackupRequest): Backup {
  const copied = Promise.withResolvers<ProgramFile[]>()
  copied.promise.catch(() => {})
  const done: ProgramFile[] = []
  let open: { path: string; content: GrowingBytes } | null = null
  let bytes = 0
  let heads = 0

  const close = (): void => {
    if (open !== null && pathSchema.safeParse(open.path).success)
      done.push({ path: open.path, bytes: open.content.bytes() })
    open = null
  }
  return {
    files: copied.promise,
    take(payload) {
      const body = payload.subarray(1)
      switch (String.fromCharCode(payload[0] ?? 0)) {
        case 'h':
          close()
          heads += 1
          if (heads > maxFiles || body.length > 4096) throw violation('more files than requested')
          open = { path: body.toString('utf8'), content: createGrowingBytes() }
          return false
        case 'd':
          bytes += body.length
          if (open === null || body.length === 0 || bytes > maxBytes)
            throw violation('more bytes of files than requested')
          open.content.push(body)
          return false
        case 'x':
          open = null
          return false
        case 'e':
          close()
          copied.resolve(done)
          return true
        default:
          throw violation('frame B has another shape')
      }
    },
    abandon: (reason) => copied.reject(reason),
  }
}
