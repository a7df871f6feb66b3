/**
 * What a dead worker leaves for others to find: one folder per sandbox, `<root>/<owner>/<sandbox id>/`, with the identity of
 * its first process. The folder is made before the process and removed after its proven end, so a folder without a
 * record means that nothing was started (processes die with a worker that dies in between).
 */
import { mkdir, readdir, readFile, rename, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxId, WorkerId } from '@cofferdam/contract'
import { z } from 'zod'
import type { ProcessIdentity } from './process-identity.ts'
import { removeTree } from './remove-tree.ts'

const recordSchema = z.strictObject({
  pid: z.int().min(2),
  start: z.int().min(0),
  place: z.string().min(1).max(64),
  /** False where processes must be found by walking the tree. */
  ownsPids: z.boolean(),
})
export type SandboxRecord = z.infer<typeof recordSchema>

const isOwner = (name: string): name is WorkerId => /^wrk_[A-Za-z0-9_-]{1,120}$/.test(name)
const isSandbox = (name: string): name is SandboxId => /^sbx_[A-Za-z0-9]{1,64}$/.test(name)

export interface Records {
  /** Makes the folder of a sandbox; its path. Throws EEXIST when the id is in use. */
  create(owner: WorkerId, id: SandboxId): Promise<string>
  save(owner: WorkerId, id: SandboxId, identity: ProcessIdentity, ownsPids: boolean): Promise<void>
  /** Forgets a sandbox and removes its folder with all that is in it. Idempotent. */
  remove(owner: WorkerId, id: SandboxId): Promise<void>
  owners(): Promise<WorkerId[]>
  list(owner: WorkerId): Promise<{ id: SandboxId; record: SandboxRecord | null }[]>
  /** The owner of a sandbox, when its folder is there. */
  ownerOf(id: SandboxId): Promise<WorkerId | null>
}

/** Records below `root`, which must exist. */
export function createRecords(root: string): Records {
  const folder = (owner: WorkerId, id: SandboxId): string => {
    if (!isOwner(owner) || !isSandbox(id)) throw new RangeError(`not an owner and a sandbox: ${owner} ${id}`)
    return join(root, owner, id)
  }
  const names = (path: string): Promise<string[]> => readdir(path).catch(() => [])
  const ownerFolders = async (): Promise<WorkerId[]> => (await names(root)).filter(isOwner)

  return {
    async create(owner, id) {
      const path = folder(owner, id)
      // Another sandbox of the owner may just remove the empty folder above.
      for (let attempt = 0; ; attempt++) {
        try {
          // Recursive, it fails with ENOENT when the folder goes away between its own two looks.
          await mkdir(join(root, owner), { recursive: true, mode: 0o711 })
          await mkdir(path, { mode: 0o711 })
          return path
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || attempt === 10) throw error
        }
      }
    },
    async save(owner, id, identity, ownsPids) {
      const path = folder(owner, id)
      const record: SandboxRecord = { ...identity, ownsPids }
      await writeFile(join(path, 'record.tmp'), JSON.stringify(record))
      await rename(join(path, 'record.tmp'), join(path, 'record.json'))
    },
    async remove(owner, id) {
      await removeTree(folder(owner, id))
      await rmdir(join(root, owner)).catch(() => {})
    },
    async owners() {
      const found: WorkerId[] = []
      for (const owner of await ownerFolders())
        if ((await names(join(root, owner))).some(isSandbox)) found.push(owner)
      return found
    },
    async list(owner) {
      if (!isOwner(owner)) return []
      const found: { id: SandboxId; record: SandboxRecord | null }[] = []
      for (const id of (await names(join(root, owner))).filter(isSandbox)) {
        const text = await readFile(join(root, owner, id, 'record.json'), 'utf8').catch(() => 'null')
        const parsed = recordSchema.nullable().safeParse(JSON.parse(text))
        found.push({ id, record: parsed.success ? parsed.data : null })
      }
      return found
    },
    async ownerOf(id) {
      for (const owner of await ownerFolders())
        if ((await names(join(root, owner))).includes(id)) return owner
      return null
    },
  }
}
