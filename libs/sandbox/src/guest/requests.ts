/** What the agent answers by F frames and a Z, one request at a time: files of the sandbox, and the proof that a cell is clean. */
import type { CofferdamError, Listing, ProgramFile } from '@cofferdam/contract'
import { cleanRequest, collectRequest, createCollector } from './collect.ts'
import type { Answer, Collection, Collector, Kept } from './collect.ts'
import type { SendFrames } from './frame-writer.ts'
import { encodePut } from './job.ts'
import { violation } from './protocol.ts'

/** Whoever asks sees to it that no other request or run is under way. */
export interface Requests {
  put(files: readonly ProgramFile[]): Promise<void>
  read(path: string, maxBytes: number): Promise<Uint8Array>
  list(globs: readonly string[], maxEntries: number): Promise<Listing>
  links(globs: readonly string[], maxEntries: number): Promise<Listing>
  remove(path: string): Promise<void>
  /** Resolves to the number of the agent's own processes that wait for the next program. */
  clean(keep: Kept): Promise<number>
  /** True while one waits for its Z. */
  readonly isWaiting: boolean
  /** Takes F. Throws `protocol_violation`. */
  take(payload: Buffer): void
  /** Takes what Z says. Throws `protocol_violation`. */
  answer(said: Answer): void
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
    answer(said) {
      // Throws for an answer that is wrong: whoever waits must then still be there to be told.
      waiting?.finish(said)
      waiting = null
    },
    abandon(reason) {
      waiting?.abandon(reason)
      waiting = null
    },
  }
}
