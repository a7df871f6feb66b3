/**
 * What a dead worker leaves for others: one folder per slot, `<root>/<owner>/<slot id>/`, with the identity
 * of its first process. The folder is created before the process and removed after its proven end. A folder
 * without a record means that the worker is opening the slot, or died while it did. A sweep then looks for
 * processes by their mark (findMarked).
 *
 * The main thread never waits for the disk here: a busy journal delays a rmdir by milliseconds (measured: 4
 * ms).
 */
import { readFileSync } from 'node:fs'
import { mkdir, readdir, rmdir, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxId, WorkerId } from '@cofferdam/contract'
import { z } from 'zod'
import { removeTree } from './remove-tree.ts'

/**
 * Most tries of a file operation that loses races against removals. On a busy machine, three busy loops once
 * lost ten tries in a row.
 */
const LOST_ROUNDS = 1000

const recordSchema = z.strictObject({
  pid: z.int().min(2),
  start: z.int().min(0),
  place: z.string().min(1).max(64),
  /** False if processes must be found in the process tree. */
  ownsPids: z.boolean(),
  /**
   * Folders of the slot's cgroup. They are stored, because a worker that sweeps may be in another cgroup and
   * could not derive them.
   */
  cgroups: z.array(z.string().startsWith('/sys/fs/cgroup/').max(4096)).max(8).default([]),
})
export type SlotRecord = z.infer<typeof recordSchema>

const isOwner = (name: string): name is WorkerId => /^wrk_[A-Za-z0-9_-]{1,120}$/.test(name)
/** Whether the name is a valid name of a slot's folder. */
export const isSlotId = (name: unknown): name is SandboxId =>
  typeof name === 'string' && /^sbx_[A-Za-z0-9]{1,64}$/.test(name)

/**
 * What a slot left counts as abandoned if it is unused and older than this: a start takes at most ten minutes
 * (ready_timeout_ms).
 */
export const ORPHAN_MS = 600_000

export interface Records {
  /** Creates and returns the folder of a slot. Throws EEXIST if the ID is in use. */
  create(owner: WorkerId, id: SandboxId): Promise<string>
  save(owner: WorkerId, id: SandboxId, record: SlotRecord): Promise<void>
  /** Removes a slot's record and its folder with all content. Idempotent. */
  remove(owner: WorkerId, id: SandboxId): Promise<void>
  owners(): Promise<WorkerId[]>
  list(owner: WorkerId): Promise<{ id: SandboxId; record: SlotRecord | null }[]>
  /** Null if no complete record exists: the worker died before or while it wrote the record. */
  read(owner: WorkerId, id: SandboxId): SlotRecord | null
  /** The owner of a slot whose folder exists. */
  ownerOf(id: SandboxId): Promise<WorkerId | null>
}

/** Records below `root`, which must exist. */
export function createRecords(root: string): Records {
  const folder = (owner: WorkerId, id: SandboxId): string => {
    if (!isOwner(owner) || !isSlotId(id)) throw new RangeError(`not an owner and a slot: ${owner} ${id}`)
    return join(root, owner, id)
  }
  const names = (path: string): Promise<string[]> => readdir(path).catch(() => [])
  const ownerFolders = async (): Promise<WorkerId[]> => (await names(root)).filter(isOwner)

  function read(owner: WorkerId, id: SandboxId): SlotRecord | null {
    try {
      const text = readFileSync(join(folder(owner, id), 'record.json'), 'utf8')
      const parsed = recordSchema.safeParse(JSON.parse(text))
      return parsed.success ? parsed.data : null
    } catch {
      return null
    }
  }

  return {
    async create(owner, id) {
      const path = folder(owner, id)
      // A concurrent removal may remove the owner's empty folder. Each round fails only because of one more
      // removal, so there are few rounds. After LOST_ROUNDS of them, the file system seems to favour
      // removals, which is an error.
      for (let attempt = 0; ; attempt++) {
        try {
          await mkdir(path, { mode: 0o711 })
          return path
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || attempt === LOST_ROUNDS) throw error
          // Fails with ENOENT if the folder disappears between two steps; then the next round follows.
          await mkdir(join(root, owner), { recursive: true, mode: 0o711 }).catch(() => {})
        }
      }
    },
    async save(owner, id, record) {
      await writeFile(join(folder(owner, id), 'record.json'), JSON.stringify(record))
    },
    async remove(owner, id) {
      const path = folder(owner, id)
      await unlink(join(path, 'record.json')).catch(() => {})
      await rmdir(path).catch(() => removeShared(path))
      await rmdir(join(root, owner)).catch(() => {})
    },
    async owners() {
      const found: WorkerId[] = []
      for (const owner of await ownerFolders())
        if ((await names(join(root, owner))).some(isSlotId)) found.push(owner)
      return found
    },
    async list(owner) {
      if (!isOwner(owner)) return []
      const ids = (await names(join(root, owner))).filter(isSlotId)
      return ids.map((id) => ({ id, record: read(owner, id) }))
    },
    read,
    async ownerOf(id) {
      for (const owner of await ownerFolders())
        if ((await names(join(root, owner))).includes(id)) return owner
      return null
    },
  }
}

/**
 * The slot's worker and a sweeping worker may remove the folder at the same time, so parts may be missing.
 */
async function removeShared(path: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await removeTree(path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || attempt === LOST_ROUNDS) throw error
    }
  }
}
