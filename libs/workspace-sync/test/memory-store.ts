/**
 * A workspace store in memory. `contend` runs once, before the next commit, and can act as another replica.
 */
import type { Manifest, WorkspaceStore } from '@cofferdam/contract'
import { manifestOf, revisionOf, sha256Of } from '@cofferdam/workspace-sync'

export interface MemoryStore extends WorkspaceStore {
  /** The workspace as text, by path. */
  texts(): Record<string, string>
  contend: (() => Promise<void>) | null
  /** Deletes and recreates the workspace, whose versions then start at 1 again. */
  remake(files: Record<string, string>): void
}

export function memoryStore(files: Record<string, string> = {}): MemoryStore {
  let version: number
  let manifest: Manifest
  let held: Map<string, Uint8Array>
  const remake = (texts: Record<string, string>): void => {
    version = 1
    manifest = manifestOf(Object.entries(texts).map(([path, text]) => ({ path, bytes: Buffer.from(text) })))
    held = new Map(Object.values(texts).map((text) => [sha256Of(Buffer.from(text)), Buffer.from(text)]))
  }
  remake(files)
  const store: MemoryStore = {
    contend: null,
    remake,
    read: async () => ({ version, manifest }),
    contents: async (_workspace, hashes) => new Map([...held].filter(([sha256]) => hashes.includes(sha256))),
    async commit(_workspace, change) {
      const contend = store.contend
      store.contend = null
      await contend?.()
      if (change.expectedVersion !== version) return null
      const { expectedManifest: expected } = change
      if (expected !== undefined && revisionOf(version, expected) !== revisionOf(version, manifest))
        return null
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
