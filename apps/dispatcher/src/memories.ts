/**
 * The memory stores of a session. The SDK downloads them into the item's folder on this host, where every
 * item has its own copy, because several sessions may have the same store. They are written into the sandbox
 * at the start. After calls, files that changed in the sandbox are written to the copy, and the SDK merges
 * the copy with the server: its rules decide about conflicts and deletions.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { AgentToolContext } from '@anthropic-ai/sdk/tools/agent-toolset/node'
import { CofferdamError, pathSchema, SURROUNDINGS, type FileIn } from '@cofferdam/contract'
import { z } from 'zod'
import { readFolder, type Room } from './read-folder.ts'
import { SESSION_FOLDERS } from './session-requests.ts'
import type { SessionSandbox } from './session-sandbox.ts'

export interface Memories {
  /** Where the agent finds the stores, and those of them that it may only read. */
  mounts: string[]
  readOnlyMounts: string[]
  files: FileIn[]
  /** Files that are too large, or too many, for a sandbox. */
  omitted: number
  /** Saves what changed in the sandbox, unless the last sync began less than 15 s ago. */
  sync(): Promise<void>
  /** Saves what changed, and ends the sync. */
  finish(): Promise<void>
}

/** A store on this host and in the work directory of the sandbox. */
interface Copy {
  folder: string
  path: string
  mount: string
  isReadOnly: boolean
  /** SHA-256 of each file, as this host and the sandbox have it. */
  known: Record<string, string>
}

/** As often as the SDK's own worker (sync-interval.ts). */
const SYNC_MS = 15_000
const MOUNTS = '/mnt/memory/'
const READ_CHANGES = readFileSync(new URL('read-changes.py', import.meta.url), 'utf8')

const changesSchema = z.object({
  folders: z.record(
    z.string(),
    z.object({ changed: z.record(pathSchema, z.string()), gone: z.array(pathSchema) }),
  ),
})

const NONE: Memories = {
  mounts: [],
  readOnlyMounts: [],
  files: [],
  omitted: 0,
  sync: async () => undefined,
  finish: async () => undefined,
}

/**
 * Downloads the stores. Rejects if one of them cannot be had: an agent without its memories works wrongly.
 */
export async function openMemories(
  { client, session }: AgentToolContext,
  workdir: string,
  sandbox: SessionSandbox,
  room: Room,
): Promise<Memories> {
  const attached = (session?.resources ?? []).filter(({ type }) => type === 'memory_store')
  if (client === undefined || session === undefined || attached.length === 0) return NONE
  const { SessionMemoryStores } = await import('@anthropic-ai/sdk/tools/agent-toolset/node')
  const copies = attached.map((store, index) => copyOf(store, join(workdir, 'memory', String(index))))
  const stores = new SessionMemoryStores(client, { workdir, syncIntervalMs: SYNC_MS })
  const moved = attached.map((store, index) => ({ ...store, mount_path: copies[index]?.folder ?? '' }))
  await mkdir(join(workdir, 'memory'), { recursive: true })
  await stores.download({ ...session, resources: moved })
  const files: FileIn[] = []
  let left = 0
  for (const copy of copies) {
    const { files: found, omitted } = await readFolder(copy.folder, copy.path, room)
    left += omitted
    const visible = found.filter(({ path }) => !isHidden(path.slice(copy.path.length)))
    for (const file of visible) copy.known[file.path.slice(copy.path.length + 1)] = sha256(bytesOf(file))
    files.push(...visible)
  }
  const writable = copies.filter(({ isReadOnly }) => !isReadOnly)
  let syncedAtMs = Date.now()
  return {
    mounts: copies.map(({ mount }) => mount),
    readOnlyMounts: copies.filter(({ isReadOnly }) => isReadOnly).map(({ mount }) => mount),
    files,
    omitted: left,
    async sync() {
      if (writable.length === 0 || Date.now() - syncedAtMs < SYNC_MS) return
      syncedAtMs = Date.now()
      await takeChanges(writable, sandbox)
      await stores.syncIfDue()
    },
    async finish() {
      await takeChanges(writable, sandbox)
      await stores.finish()
      await stores.flushWrites()
      await stores.dispose()
    },
  }
}

function copyOf(
  store: {
    mount_path?: string | null
    name?: string | null
    memory_store_id?: string
    access?: string | null
  },
  folder: string,
): Copy {
  const fallback = `memory/${store.name ?? store.memory_store_id ?? ''}`
  const mount = store.mount_path ?? `${SURROUNDINGS.workFolder}/${fallback}`
  const inside =
    store.mount_path == null ? fallback : `${SESSION_FOLDERS.memory}/${mount.slice(MOUNTS.length)}`
  const path = pathSchema.safeParse(inside)
  if (!path.success || !mount.startsWith(store.mount_path == null ? SURROUNDINGS.workFolder : MOUNTS))
    throw new CofferdamError(
      'invalid_request',
      `A memory store is mounted at ${JSON.stringify(mount)}; sandboxes have them below ${MOUNTS}.`,
    )
  return { folder, path: path.data, mount, isReadOnly: store.access === 'read_only', known: {} }
}

/** Writes what changed in the sandbox to this host. A sandbox that is gone changed nothing. */
async function takeChanges(copies: readonly Copy[], sandbox: SessionSandbox): Promise<void> {
  if (copies.length === 0) return
  const folders = Object.fromEntries(copies.map(({ path, known }) => [path, known]))
  const result = await sandbox.inspect(['python3', '-I', '-c', READ_CHANGES], JSON.stringify({ folders }))
  if (result === null || !result.ok) return
  const said = changesSchema.safeParse(parsed(result.stdout))
  if (!said.success) return
  for (const { folder, path, known } of copies) {
    const { changed = {}, gone = [] } = said.data.folders[path] ?? {}
    for (const [name, text] of Object.entries(changed)) {
      if (isHidden(`/${name}`)) continue
      await mkdir(dirname(join(folder, name)), { recursive: true })
      await writeFile(join(folder, name), text)
      known[name] = sha256(Buffer.from(text))
    }
    for (const name of gone.filter((one) => one in known)) {
      await rm(join(folder, name), { force: true })
      delete known[name]
    }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** The SDK's marker, and whatever else begins with a dot, is not a memory. */
const isHidden = (path: string): boolean => path.includes('/.')
const bytesOf = (file: FileIn): Buffer => Buffer.from(file.content_base64 ?? '', 'base64')
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
