/**
 * Requests that the agent answers with F frames and one Z, one at a time: files of the sandbox, and the proof
 * that a cell is clean. Also the files that wait to be sent with the next job.
 */
import { BOUNDS, CofferdamError, type Listing, type ProgramFile } from '@cofferdam/contract'
import { cleanRequest, collectRequest, createCollector } from './collect.ts'
import type { Answer, Collection, Collector, Kept } from './collect.ts'
import type { SendFrames } from './frame-writer.ts'
import { encodePut } from './job.ts'
import { violation } from './protocol.ts'

/** The caller must not make a request while another one, or a run, is in flight. */
export interface Requests {
  put(files: readonly ProgramFile[]): Promise<void>
  read(path: string, maxBytes: number): Promise<Uint8Array>
  list(globs: readonly string[], maxEntries: number): Promise<Listing>
  links(globs: readonly string[], maxEntries: number): Promise<Listing>
  remove(path: string): Promise<void>
  /** Resolves to the number of the agent's own processes that wait for the next program. */
  clean(keep: Kept): Promise<number>
  /** True while a request waits for its Z. */
  readonly isWaiting: boolean
  /** Takes F. Throws `protocol_violation`. */
  take(payload: Buffer): void
  /** Takes the parsed Z. Throws `protocol_violation`. */
  answer(answer: Answer): void
  abandon(reason: CofferdamError): void
}

export function createRequests(send: SendFrames): Requests {
  let waiting: Collector | null = null

  async function ask<T>(collection: Collection<T>, frames: readonly Buffer[]): Promise<T> {
    waiting = collection
    await send(frames)
    return await collection.result
  }

  const nothing = (): Collection<void> => createCollector(0, () => undefined)
  const collect = <T>({ collector, frame }: { collector: Collection<T>; frame: Buffer }): Promise<T> =>
    ask(collector, [frame])

  return {
    put: (files) => ask(nothing(), encodePut(files)),
    read: (path, maxBytes) => collect(collectRequest.read(path, maxBytes)),
    list: (globs, maxEntries) => collect(collectRequest.list(globs, maxEntries)),
    links: (globs, maxEntries) => collect(collectRequest.list(globs, maxEntries, 'links')),
    remove: (path) => collect(collectRequest.remove(path)),
    clean: (keep) => collect(cleanRequest(keep)),
    get isWaiting() {
      return waiting !== null
    },
    take(payload) {
      if (waiting === null) throw violation('frame F without a request')
      waiting.take(payload)
    },
    answer(answer) {
      // `finish` throws for a wrong answer. `waiting` must then still be set, so that `abandon` rejects it.
      waiting?.finish(answer)
      waiting = null
    },
    abandon(reason) {
      waiting?.abandon(reason)
      waiting = null
    },
  }
}

export interface QueuedFiles {
  /** Throws `payload_too_large` beyond the bounds of one execution, and then holds no files. */
  add(files: readonly ProgramFile[]): void
  /** Returns all files and forgets them. */
  take(): ProgramFile[]
}

export function createQueuedFiles(): QueuedFiles {
  let queued: ProgramFile[] = []
  let bytes = 0

  function take(): ProgramFile[] {
    const files = queued
    queued = []
    bytes = 0
    return files
  }

  return {
    take,
    add(files) {
      for (const file of files) bytes += file.bytes.length
      queued.push(...files)
      if (bytes <= BOUNDS.filesTotalBytes && queued.length <= BOUNDS.fileCount) return
      take()
      throw new CofferdamError('payload_too_large', 'the files exceed the bounds of one execution')
    },
  }
}
