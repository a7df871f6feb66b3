/** What may be asked beside a run, each once at a time: copies of files (B), and what the sandbox used so far (P, answered by A). */
import { CofferdamError, type ProgramFile, type Usage } from '@cofferdam/contract'
import { backupFrame, createBackup, type Backup, type BackupRequest } from './backup.ts'
import { parseUsage } from './evidence.ts'
import type { SendFrames } from './frame-writer.ts'
import { encodeFrame, violation } from './protocol.ts'

export interface Asides {
  /** Throws `conflict` while a copy is under way. */
  snapshot(request: BackupRequest): Promise<ProgramFile[]>
  /** Whoever asks meanwhile gets the same answer. */
  usage(): Promise<Usage>
  /** Takes B. Throws `protocol_violation`, as `pong` does. */
  copied(payload: Buffer): void
  /** Takes A. */
  pong(payload: Buffer): void
  abandon(reason: CofferdamError): void
}

/** `write` is for a frame that does not wait for those of a job. */
export function createAsides(send: SendFrames, write: (frame: Buffer) => void): Asides {
  let backup: Backup | null = null
  let ping: PromiseWithResolvers<Usage> | null = null
  return {
    async snapshot(request) {
      if (backup !== null) throw new CofferdamError('conflict', 'A copy is under way already.')
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
