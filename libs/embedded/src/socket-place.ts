/**
 * Where a unix socket stands. A socket path must fit into `sun_path`: 108 bytes on Linux (unix(7)), 104 on macOS, the
 * closing NUL included. A data directory that is too deep gets a short private directory under the system's
 * temporary one instead.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const MAX_PATH_BYTES = process.platform === 'linux' ? 107 : 103
const PREFIX = 'cfd-'

export interface SocketPlace {
  dir: string
  /** Set when the directory is a temporary one that goes with the server. */
  temporaryDir: string | null
  remove(): void
}

/** The directory for a socket called `name`: `dataDir` when the path fits, else a fresh mode-700 temporary one. */
export function socketPlace(dataDir: string, name: string): SocketPlace {
  if (fits(join(dataDir, name)) && isPlain(dataDir))
    return { dir: dataDir, temporaryDir: null, remove: () => rmSync(join(dataDir, name), { force: true }) }
  const asLong = PREFIX + '-'.repeat(6) // mkdtemp adds six characters
  const parent = fits(join(tmpdir(), asLong, name)) && isPlain(tmpdir()) ? tmpdir() : '/tmp'
  const dir = mkdtempSync(join(parent, PREFIX))
  return { dir, temporaryDir: dir, remove: () => rmSync(dir, { recursive: true, force: true }) }
}

/** True for the last part of a path that `socketPlace` may have made. */
export const isPrivateSocketDir = (name: string): boolean => /^cfd-[A-Za-z0-9]{6}$/.test(name)

const fits = (path: string): boolean => Buffer.byteLength(path) <= MAX_PATH_BYTES
/** Postgres reads `unix_socket_directories` as a list, and URLs need escapes: only plain paths are used directly. */
const isPlain = (path: string): boolean => /^\/[A-Za-z0-9_./@+-]*$/.test(path)
