/**
 * What a dead worker leaves for others to find: one folder per slot, `<root>/<owner>/<slot id>/`, with the
 * identity of its first process. The folder is made before the process and removed after its proven end, so a
 * folder without a record means that nothing was started (processes die with a worker that dies in between).
 *
 * Nothing here waits for the disk on the worker's own thread: a busy journal holds a rmdir up for
 * milliseconds (measured: 4 ms each).
 */
import { readFileSync } from 'node:fs'
import { mkdir, readdir, rmdir, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxId, WorkerId } from '@cofferdam/contract'
import { z } from 'zod'
import { removeTree } from './remove-tree.ts'

/** Ten were lost in a row once, by three loops that did nothing else on a busy machine. */
const LOST_ROUNDS = 1000

const recordSchema = z.strictObject({
  pid: z.int().min(2),
  start: z.int().min(0),
  place: z.string().min(1).max(64),
  /** False where processes must be found by walking the tree. */
  ownsPids: z.boolean(),
  /** Folders of its cgroup; a worker that sweeps may stand in another group itself. */
  cgroups: z.array(z.string().startsWith('/sys/fs/cgroup/').max(4096)).max(8).default([]),
})
export type SlotRecord = z.infer<typeof recordSchema>

const isOwner = (name: string): name is WorkerId => /^wrk_[A-Za-z0-9_-]{1,120}$/.test(name)
/** True for what may name a slot's folder. */
export const isSlotId = (name: unknown): name is SandboxId =>
  typeof name === 'string' && /^sbx_[A-Za-z0-9]{1,64}$/.test(name)

/**
 * What a slot of this age has and nobody uses is left over: a start has at most ten minutes
 * (ready_timeout_ms) and fails without it.
 */
export const ORPHAN_MS = 600_000

export interface Records {
  /** Makes the folder of a slot; its path. Throws EEXIST when the id is in use. */
  create(owner: WorkerId, id: SandboxId): Promise<string>
  save(owner: WorkerId, id: SandboxId, record: SlotRecord): Promise<void>
  /** Removes a slot's record and folder with everything in it. Idempotent. */
  remove(owner: WorkerId, id: SandboxId): Promise<void>
  owners(): Promise<WorkerId[]>
  list(owner: WorkerId): Promise<{ id: SandboxId; record: SlotRecord | null }[]>
  /** Null when the slot was never started, or when its worker died while it wrote. */
  read(owner: WorkerId, id: SandboxId): SlotRecord | null
  /** The owner of a slot, when its folder is there. */
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
      // Another slot of the owner may just remove the empty folder above. Each round is lost to another
      // removal, so rounds are few unless the file system always lets removals win; then it is an error.
      for (let attempt = 0; ; attempt++) {
        try {
          await mkdir(path, { mode: 0o711 })
          return path
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || attempt === LOST_ROUNDS) throw error
          // Recursive, it fails with ENOENT when the folder goes away between its own two looks: then there
          // is another round.
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

/** The slot's own worker and one that sweeps may remove it at the same time: each may find things gone. */
async function removeShared(path: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await removeTree(path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || attempt === LOST_ROUNDS) throw error
    }
  }
}
