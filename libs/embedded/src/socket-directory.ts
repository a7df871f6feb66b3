/**
 * Chooses the directory of a unix socket. Its path must fit into `sun_path`: 108 bytes on Linux (unix(7)),
 * 104 on macOS, with the final NUL. For a longer path it uses a short private temporary directory.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const MAX_PATH_BYTES = process.platform === 'linux' ? 107 : 103
const PREFIX = 'cfd-'

export interface SocketDirectory {
  dir: string
  /** Set when the directory is temporary and is removed with the server. */
  temporaryDir: string | null
  remove(): void
}

/** The directory for a socket `name`: `dataDir` if the path fits, or a temporary directory (mode 700). */
export function socketDirectory(dataDir: string, name: string): SocketDirectory {
  if (fits(join(dataDir, name)) && isPlain(dataDir))
    return { dir: dataDir, temporaryDir: null, remove: () => rmSync(join(dataDir, name), { force: true }) }
  const asLong = PREFIX + '-'.repeat(6) // mkdtemp adds six characters
  const parent = fits(join(tmpdir(), asLong, name)) && isPlain(tmpdir()) ? tmpdir() : '/tmp'
  const dir = mkdtempSync(join(parent, PREFIX))
  return { dir, temporaryDir: dir, remove: () => rmSync(dir, { recursive: true, force: true }) }
}

/** True for the name of a temporary directory of `socketDirectory`. */
export const isPrivateSocketDir = (name: string): boolean => /^cfd-[A-Za-z0-9]{6}$/.test(name)

const fits = (path: string): boolean => Buffer.byteLength(path) <= MAX_PATH_BYTES
/** Only plain paths are used: Postgres reads `unix_socket_directories` as a list, and URLs need escapes. */
const isPlain = (path: string): boolean => /^\/[A-Za-z0-9_./@+-]*$/.test(path)
