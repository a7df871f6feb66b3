/** A manifest as JSON. It tells a resumed agent what its sandbox began with; nothing is written again. */
import type { ManifestEntry, ManifestShape } from './openai-agents-shape.ts'

/** The fields of a manifest. Values of the environment are left out if they are ephemeral. */
export function storedManifest({ version, root, entries, environment }: ManifestShape): object {
  const kept = Object.entries(environment).filter(([, { ephemeral }]) => !ephemeral)
  return {
    version,
    root,
    entries: storedEntries(entries),
    environment: Object.fromEntries(kept.map(([name, { value }]) => [name, { value }])),
  }
}

/** Bytes are left out: JSON has none, and the session has the file. */
function storedEntries(entries: Record<string, ManifestEntry>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(entries).map(([path, entry]) => {
      if (entry.type === 'file' && typeof entry.content !== 'string') return [path, { ...entry, content: '' }]
      if (entry.type !== 'dir') return [path, entry]
      return [
        path,
        { ...entry, children: storedEntries((entry.children ?? {}) as Record<string, ManifestEntry>) },
      ]
    }),
  )
}
