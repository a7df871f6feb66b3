/**
 * One memory store. Published (SDK resources/beta/memory-stores/memories.ts): all fields, the rules of paths
 * and sizes, what `view` means, both kinds of 409, and that an update succeeds when nothing would change.
 */
import { createHash } from 'node:crypto'
import type {
  BetaManagedAgentsMemory,
  BetaManagedAgentsMemoryListItem,
  MemoryCreateParams,
  MemoryUpdateParams,
} from '@anthropic-ai/sdk/resources/beta/memory-stores/memories'
import { newId, stamp } from './stamps-and-ids.ts'
import { badRequest, notFound, WireError } from './wire-errors.ts'

/** "The maximum size is 100 kB (102,400 bytes)". */
const CONTENT_MAX = 102_400
const PATH_MAX = 1024
const SEGMENTS_MAX = 20
/** "The server's 2000-memories-per-store cap" (tools/agent-toolset/memories.ts). */
const MEMORIES_MAX = 2000
/** Control and format characters, and the line and paragraph separators. */
const FORBIDDEN = /[\p{Cc}\p{Cf}\u2028\u2029]/u

type View = 'basic' | 'full'
type Stored = BetaManagedAgentsMemory & { content: string }

export class MemoryStore {
  readonly id = newId('memstore')
  readonly name: string
  readonly #memories = new Map<string, Stored>()

  constructor(name: string) {
    this.name = name
  }

  /** Contents by path. */
  get contents(): Record<string, string> {
    return Object.fromEntries([...this.#memories.values()].map(({ path, content }) => [path, content]))
  }

  create({ path, content }: Pick<MemoryCreateParams, 'path' | 'content'>): Stored {
    this.#checkPath(path, null)
    if (this.#memories.size >= MEMORIES_MAX)
      throw badRequest(`a store holds at most ${MEMORIES_MAX} memories`)
    const at = stamp()
    return this.#keep({ id: newId('mem'), path, created_at: at }, content ?? '', at)
  }

  /** Throws a 409 if the content is not the expected one, unless the update would change nothing. */
  update(id: string, change: Pick<MemoryUpdateParams, 'path' | 'content' | 'precondition'>): Stored {
    const old = this.retrieve(id)
    const [path, content] = [change.path ?? old.path, change.content ?? old.content]
    if (path === old.path && content === old.content) return old
    if (change.precondition !== undefined) requireHash(old, change.precondition.content_sha256)
    if (path !== old.path) this.#checkPath(path, id)
    return this.#keep({ id, path, created_at: old.created_at }, content, stamp())
  }

  delete(id: string, expectedSha: string | undefined): void {
    const old = this.retrieve(id)
    if (expectedSha !== undefined) requireHash(old, expectedSha)
    this.#memories.delete(id)
  }

  retrieve(id: string): Stored {
    const found = this.#memories.get(id)
    if (found === undefined) throw notFound('memory')
    return found
  }

  /** Sorted by path. With a depth of 1, deeper memories become one `memory_prefix` per directory. */
  list({
    prefix = '/',
    depth,
    view,
  }: {
    prefix?: string | undefined
    depth: number
    view: View
  }): BetaManagedAgentsMemoryListItem[] {
    const found = [...this.#memories.values()].filter(({ path }) => path.startsWith(prefix))
    const items = found.map((memory): BetaManagedAgentsMemoryListItem => {
      const slash = memory.path.indexOf('/', prefix.length)
      if (depth === 1 && slash >= 0) return { type: 'memory_prefix', path: memory.path.slice(0, slash + 1) }
      return seen(memory, view)
    })
    const byPath = new Map(items.map((item) => [item.path, item]))
    return [...byPath.values()].toSorted((a, b) => (a.path < b.path ? -1 : 1))
  }

  #keep(base: Pick<Stored, 'id' | 'path' | 'created_at'>, content: string, at: string): Stored {
    const bytes = Buffer.from(content)
    if (bytes.length > CONTENT_MAX)
      throw badRequest(`content: at most ${CONTENT_MAX} bytes, got ${bytes.length}`)
    const memory: Stored = {
      ...base,
      type: 'memory',
      memory_store_id: this.id,
      memory_version_id: newId('memver'),
      content,
      content_sha256: createHash('sha256').update(bytes).digest('hex'),
      content_size_bytes: bytes.length,
      updated_at: at,
    }
    this.#memories.set(memory.id, memory)
    return memory
  }

  #checkPath(path: string, own: string | null): void {
    const segments = path.split('/').slice(1)
    const isClean = segments.every((segment) => segment !== '' && segment !== '.' && segment !== '..')
    if (!path.startsWith('/') || !isClean)
      throw badRequest('path: expected / and segments that are not empty, . or ..')
    if (segments.length > SEGMENTS_MAX) throw badRequest(`path: at most ${SEGMENTS_MAX} segments`)
    if (Buffer.byteLength(path) > PATH_MAX) throw badRequest(`path: at most ${PATH_MAX} bytes`)
    if (FORBIDDEN.test(path) || path !== path.normalize('NFC'))
      throw badRequest('path: expected NFC without control or format characters')
    const other = [...this.#memories.values()].find(
      (memory) => memory.id !== own && (memory.path === path || overlap(memory.path, path)),
    )
    if (other !== undefined)
      throw new WireError(409, 'memory_path_conflict_error', 'the path is in use', {
        conflicting_memory_id: other.id,
        conflicting_path: other.path,
      })
  }
}

/** A memory as a response shows it: content only with `full`. */
export const seen = (memory: Stored, view: View): BetaManagedAgentsMemory => ({
  ...memory,
  content: view === 'full' ? memory.content : null,
})

const overlap = (a: string, b: string): boolean => a.startsWith(`${b}/`) || b.startsWith(`${a}/`)

function requireHash({ content_sha256: actual }: Stored, expected: string | undefined): void {
  if (actual !== expected)
    throw new WireError(409, 'memory_precondition_failed_error', 'the memory has another content_sha256')
}
