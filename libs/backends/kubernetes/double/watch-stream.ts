/** A watch: changes of the selected objects since a version, as lines of JSON. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { gone, statusObject, withNulls } from './answers.ts'
import { apiVersionOf, KINDS } from './discovery.ts'
import type { KubeObject, ObjectStore, StoreEvent } from './object-store.ts'
import { selectorOf, type Selects } from './selectors.ts'
import { tableOf, wantsTable } from './tables.ts'

export interface WatchFaults {
  /** Watches that are answered with 410 Gone as first event. */
  gone_watches: number
  /** Watches that are never answered. */
  mute_watches: number
  /** Events in whose place the watch breaks off. */
  cut_watches: number
  /** Events that have null for absent fields. */
  null_events: number
}

/** The open watches, for tests to count and to send bookmarks. */
export class WatchStreams {
  readonly #store: ObjectStore
  readonly #bookmarks = new Set<() => void>()
  readonly #open = new Set<ServerResponse>()
  faults: WatchFaults = { gone_watches: 0, mute_watches: 0, cut_watches: 0, null_events: 0 }
  /** Watches ever opened. */
  count = 0

  constructor(store: ObjectStore) {
    this.#store = store
  }

  /** Watches open now. */
  get open(): number {
    return this.#open.size
  }

  /** Sends the current version to every watch that asked for bookmarks. */
  bookmark(): void {
    for (const send of this.#bookmarks) send()
  }

  /** Answers the request for a watch. Throws BadSelector. */
  serve(
    request: IncomingMessage,
    response: ServerResponse,
    plural: string,
    namespace: string | undefined,
    query: URLSearchParams,
  ): void {
    const selects = selectorOf(plural, query)
    const asTable = wantsTable(request.headers.accept)
    this.count += 1
    if (this.faults.mute_watches > 0) {
      this.faults.mute_watches -= 1
      return
    }
    response.writeHead(200, { 'Content-Type': 'application/json' })
    response.flushHeaders()
    const send = (type: string, object: object): void =>
      void response.write(`${JSON.stringify({ type, object })}\n`)
    const from = Number(query.get('resourceVersion') ?? 0)
    const missed = from === 0 ? [] : this.#store.since(from)
    const isGone = this.faults.gone_watches > 0
    if (isGone) this.faults.gone_watches -= 1
    if (missed === null || isGone) {
      send('ERROR', statusObject(gone()))
      response.end()
      return
    }
    const tell = (type: string, object: KubeObject): void => {
      if (this.faults.cut_watches === 0) {
        const isSpelled = this.faults.null_events > 0
        if (isSpelled) this.faults.null_events -= 1
        return send(type, asTable ? tableOf(plural, [object], {}) : isSpelled ? withNulls(object) : object)
      }
      this.faults.cut_watches -= 1
      response.destroy()
    }
    const onEvent = (event: StoreEvent): void => {
      if (event.plural !== plural || response.destroyed) return
      if (namespace !== undefined && event.object.metadata.namespace !== namespace) return
      const type = typeFor(event, selects)
      if (type !== null) tell(type, event.object)
    }
    const bookmark = (): void => {
      const metadata = { resourceVersion: String(this.#store.version), creationTimestamp: null }
      const kind = KINDS[plural]
      send('BOOKMARK', { apiVersion: apiVersionOf(plural), kind, metadata })
    }
    const wantsBookmarks = query.get('allowWatchBookmarks') === 'true' && !asTable
    if (from === 0)
      for (const object of this.#store.list(plural, namespace)) if (selects(object)) tell('ADDED', object)
    for (const event of missed) onEvent(event)
    const unlisten = this.#store.onEvent(onEvent)
    this.#open.add(response)
    if (wantsBookmarks) this.#bookmarks.add(bookmark)
    const end = (): void => {
      // Like the real server, send a bookmark before the end, so that an idle client can continue from there.
      if (wantsBookmarks) bookmark()
      response.end()
    }
    const timer = setTimeout(end, Number(query.get('timeoutSeconds') ?? 300) * 1000)
    timer.unref()
    response.once('close', () => {
      clearTimeout(timer)
      unlisten()
      this.#bookmarks.delete(bookmark)
      this.#open.delete(response)
    })
  }
}

/** Event type for a selector: an object appears when it gets a label and disappears when it loses it. */
function typeFor({ type, object, before }: StoreEvent, selects: Selects): string | null {
  const was = before !== undefined && selects(before)
  const is = selects(object)
  if (type === 'DELETED') return was || is ? 'DELETED' : null
  if (is) return was ? 'MODIFIED' : 'ADDED'
  return was ? 'DELETED' : null
}
