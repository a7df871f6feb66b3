/** Manifests of files, and their differences. */
import { createHash } from 'node:crypto'
import type { FileFacts, Manifest, ProgramFile } from '@cofferdam/contract'

export const EMPTY_MANIFEST: Manifest = new Map()

/** SHA-256 of the bytes in hex. */
export const sha256Of = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** The metadata of one file. */
export const factsOf = ({ bytes, executable }: Omit<ProgramFile, 'path'>): FileFacts => ({
  sha256: sha256Of(bytes),
  size: bytes.length,
  mode: executable === true ? 0o755 : 0o644,
})

/** The manifest of files in memory. */
export function manifestOf(files: readonly ProgramFile[]): Manifest {
  return new Map(files.map((file) => [file.path, factsOf(file)]))
}

/** True when both are absent, or have the same bytes and mode. */
export function sameFacts(a: FileFacts | undefined, b: FileFacts | undefined): boolean {
  return a?.sha256 === b?.sha256 && a?.mode === b?.mode
}

export interface ManifestDiff {
  /** New and changed files by path. */
  changed: Map<string, FileFacts>
  deleted: string[]
}

/** The changes from `before` to `after`. */
export function diffManifests(before: Manifest, after: Manifest): ManifestDiff {
  const changed = new Map([...after].filter(([path, facts]) => !sameFacts(before.get(path), facts)))
  return { changed, deleted: [...before.keys()].filter((path) => !after.has(path)) }
}

/** Identifies a workspace as it was read: the same text for the same files and version, in any order. */
export function revisionOf(version: number, manifest: Manifest): string {
  const facts = [...manifest].map(([path, { sha256, size, mode }]) => [path, sha256, size, mode] as const)
  const sorted = facts.toSorted(([a], [b]) => (a < b ? -1 : 1))
  return sha256Of(Buffer.from(JSON.stringify([version, sorted])))
}
