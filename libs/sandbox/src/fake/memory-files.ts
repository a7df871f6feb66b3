/** The work directory of a fake sandbox: a map with the protocol's rules for paths. */
import { posix } from 'node:path'
import { CofferdamError, parse, pathSchema, type Entry, type ProgramFile } from '@cofferdam/contract'

export class MemoryFiles {
  readonly #files = new Map<string, ProgramFile>()

  /** Throws `invalid_request` for a path that leaves the work directory. */
  put(file: ProgramFile): void {
    const path = parse(pathSchema, file.path, 'path')
    this.#files.set(path, { ...file, bytes: file.bytes.slice() })
  }

  get(path: string): ProgramFile | undefined {
    return this.#files.get(path)
  }

  /** Throws `invalid_request`, `not_found` or `payload_too_large`. */
  read(path: string, maxBytes: number): Uint8Array {
    const file = this.#files.get(parse(pathSchema, path, 'path'))
    if (file === undefined)
      throw new CofferdamError('not_found', `There is no file "${path}" in the sandbox.`)
    if (file.bytes.length > maxBytes)
      throw new CofferdamError(
        'payload_too_large',
        `"${path}" has ${file.bytes.length} bytes, at most ${maxBytes} were asked for.`,
      )
    return file.bytes.slice()
  }

  list(globs: readonly string[], maxEntries: number): Entry[] {
    const entries: Entry[] = []
    const wanted = globs.filter((glob) => !glob.startsWith('!'))
    const closed = globs.filter((glob) => glob.startsWith('!')).map((glob) => glob.slice(1))
    const isClosed = (path: string): boolean =>
      path !== '.' && (closed.some((glob) => posix.matchesGlob(path, glob)) || isClosed(posix.dirname(path)))
    for (const [path, file] of [...this.#files].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      if (entries.length === maxEntries) break
      if (wanted.some((glob) => posix.matchesGlob(path, glob)) && !isClosed(posix.dirname(path)))
        entries.push({ path, size: file.bytes.length })
    }
    return entries
  }

  /** Removes a file, or everything below a directory. Ignores a missing path. */
  remove(path: string): void {
    const checked = parse(pathSchema, path, 'path')
    for (const name of this.#files.keys())
      if (name === checked || name.startsWith(`${checked}/`)) this.#files.delete(name)
  }
}
