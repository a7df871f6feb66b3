/** Manifests of @openai/agents: what a sandbox should contain, written into a session. */
import { CofferdamError } from '@cofferdam/client'
import type { ManifestEntry, ManifestShape, OpenAiAgentsSdk } from './openai-agents-shape.ts'
import type { SandboxFiles } from './session-files.ts'

const unsupported = (what: string): CofferdamError =>
  new CofferdamError('capability_missing', `The sandbox of Cofferdam has no ${what}.`, { retry: 'never' })

/** Throws `capability_missing` for what a session does not have: users, groups, and folders of the host. */
export function checkManifest({ users, groups, extraPathGrants }: ManifestShape): void {
  if (users.length > 0 || groups.length > 0) throw unsupported('users and groups of its own')
  if (extraPathGrants.length > 0) throw unsupported('access to folders outside of its work folder')
}

/**
 * Makes a manifest with the fields of `parts`, which may itself be a manifest. Fields of `changes` take
 * precedence.
 */
export function manifestOf<M extends ManifestShape>(
  { Manifest }: OpenAiAgentsSdk<M>,
  parts: Partial<ManifestShape>,
  changes: Partial<ManifestShape>,
): M {
  const { version, root, entries, environment, users, groups, extraPathGrants } = parts
  const fields = { version, root, entries, environment, users, groups, extraPathGrants, ...changes }
  const given = Object.entries(fields).filter(([, value]) => value !== undefined)
  const Made = Manifest as unknown as new (init: object) => M
  return new Made(Object.fromEntries(given))
}

/**
 * Writes one entry. Throws `capability_missing` for entries other than files and folders: repositories need a
 * network, and files of the host must be read by the caller.
 */
export async function writeEntry(files: SandboxFiles, path: string, entry: ManifestEntry): Promise<void> {
  if (entry.group !== undefined) throw unsupported('users and groups of its own')
  if (entry.type === 'file') {
    const { content } = entry
    if (typeof content !== 'string' && !(content instanceof Uint8Array))
      throw new CofferdamError(
        'invalid_request',
        `${path}: the content of a file is a string or a Uint8Array.`,
      )
    await files.write(path, content)
  } else if (entry.type === 'dir') {
    await files.makeFolder(path)
    await writeEntries(files, path, (entry.children ?? {}) as Record<string, ManifestEntry>)
  } else throw unsupported(`entries of the type ${entry.type} (${path})`)
  if (entry.permissions !== undefined) await files.setMode(path, modeOf(entry.permissions))
}

/** Writes entries by their names in `folder`. */
export async function writeEntries(
  files: SandboxFiles,
  folder: string,
  entries: Record<string, ManifestEntry>,
): Promise<void> {
  for (const [name, entry] of Object.entries(entries)) await writeEntry(files, `${folder}/${name}`, entry)
}

/** Permission bits of a number, of `-rwxr-xr-x`, or of the SDK's `{ owner, group, other }`. */
export function modeOf(permissions: unknown): number {
  if (typeof permissions === 'number') return permissions & 0o777
  if (typeof permissions === 'string' && /^[d-]([r-][w-][x-]){3}$/.test(permissions))
    return Array.from(permissions.slice(1)).reduce((mode, bit) => mode * 2 + (bit === '-' ? 0 : 1), 0)
  if (typeof permissions === 'object' && permissions !== null) {
    const { owner = 7, group = 0, other = 0 } = permissions as Record<string, number>
    return ((owner & 7) << 6) | ((group & 7) << 3) | (other & 7)
  }
  throw new CofferdamError('invalid_request', `Not permissions of a file: ${String(permissions)}`)
}
