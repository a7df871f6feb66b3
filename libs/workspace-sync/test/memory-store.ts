/** The store of a workspace as the contract describes it, in memory. `contend` runs before each commit, as another replica would. */
import type { Manifest, WorkspaceStore } from '@cofferdam/contract'
import { manifestOf, sha256Of } from '@cofferdam/workspace-sync'

export interface MemoryStore extends WorkspaceStore {
  /** The workspace as text, by path. */
  texts(): Record<string, string>
  contend: (() => Promise<void>) | null
}

export function memoryStore(files: Record<string, string> = {}): MemoryStore {
  let version = 1
  let manifest: Manifest = manifestOf(
    Object.entries(files).map(([path, text]) => ({ path, bytes: Buffer.from(text) })),
  )
  let held = new Map<string, Uint8Array>(
    Object.values(files).map((text) => [sha256Of(Buffer.from(text)), Buffer.from(text)]),
  )
  const store: MemoryStore = {
    contend: null,
    read: async () => ({ version, manifest }),
    contents: async (_workspace, hashes) => new Map([...held].filter(([sha256]) => hashes.includes(sha256))),
    async commit(_workspace, change) {
      const contend = store.contend
      store.contend = null
      await contend?.()
      if (change.expectedVersion !== version) return null
      const all = new Map([...held, ...change.contents])
      held = new Map(
        [...change.manifest.values()].map(({ sha256 }) => {
          const bytes = all.get(sha256)
          if (bytes === undefined) throw new Error(`no bytes came for ${sha256}`)
          return [sha256, bytes]
        }),
      )
      manifest = change.manifest
      version += 1
      return version
    },
    texts: () =>
      Object.fromEntries(
        [...manifest]
          .map(([path, { sha256 }]): [string, string] => [
            path,
            Buffer.from(held.get(sha256) ?? '').toString(),
          ])
          .toSorted(),
      ),
  }
  return store
}
