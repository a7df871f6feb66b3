/**
 * The files of a sandbox. Reading and writing go through the API of sessions, which charges nothing and needs
 * no program. Links, folders and paths outside of the work folder need a program (file-program.ts).
 */
import { CofferdamError, isCofferdamError } from '@cofferdam/client'
import type { FileAnswers, FileQuestion } from './file-program.ts'
import { locate, locateInside } from './sandbox-path.ts'

interface Signalled {
  signal?: AbortSignal
}

export interface SandboxFiles {
  /** The bytes of a file of at most 8 MiB, through links. Null when absent. Throws for a folder. */
  read(path: string, options?: Signalled): Promise<Uint8Array | null>
  /**
   * Writes a file of at most 8 MiB and makes missing folders. A link is replaced, not followed. Throws for a
   * folder and outside of the work folder.
   */
  write(path: string, content: Uint8Array | string, options?: Signalled): Promise<void>
  /** Type and size, through links. Null when absent. */
  stat(path: string, options?: Signalled): Promise<FileAnswers['stat']>
  /** The entries of one folder. Null when absent. Throws for a file. */
  list(path: string, options?: Signalled): Promise<FileAnswers['list']>
  /** Removes a file or a link. False when absent. Throws for a folder and outside of the work folder. */
  remove(path: string, options?: Signalled): Promise<boolean>
  /** Makes a folder and its parents. */
  makeFolder(path: string, options?: Signalled): Promise<void>
  /** Sets permission bits. Throws when there is no such file. */
  setMode(path: string, mode: number, options?: Signalled): Promise<void>
}

/** What the files need of their session. */
export interface FileAccess {
  root: (options: Signalled) => Promise<string>
  ask: <K extends keyof FileAnswers>(question: FileQuestion<K>, options: Signalled) => Promise<FileAnswers[K]>
  /** `download` and `upload` take a path inside of the work folder. They throw as `client.sessions` does. */
  download: (inside: string, options: Signalled) => Promise<Uint8Array>
  upload: (inside: string, content: Uint8Array | string, options: Signalled) => Promise<void>
}

/** True if the API does not serve the path: it has a link or a refused name, or it is a folder. */
const isRefusal = (error: unknown): boolean =>
  isCofferdamError(error) && (error.code === 'invalid_request' || error.code === 'sandbox_lost')
const isAbsence = (error: unknown): boolean => isCofferdamError(error) && error.code === 'not_found'

export function createSandboxFiles({ root, ask, download, upload }: FileAccess): SandboxFiles {
  async function readOutside(path: string, options: Signalled): Promise<Uint8Array | null> {
    const base64 = await ask({ kind: 'read', path }, options)
    return base64 === null ? null : bytesOf(base64)
  }

  return {
    async read(path, options = {}) {
      const top = await root(options)
      const { absolute, inside } = locate(top, path)
      if (inside === null) return readOutside(absolute, options)
      try {
        if (inside !== '') return await download(inside, options)
      } catch (error) {
        if (isAbsence(error)) return null
        if (!isRefusal(error)) throw error
      }
      const found = await ask({ kind: 'stat', path: absolute }, options)
      if (found === null) return null
      if (found.type !== 'file') throw new CofferdamError('invalid_request', `${path} is not a file.`)
      const real = locate(top, found.real)
      if (real.inside === null || real.inside === inside) return readOutside(real.absolute, options)
      return download(real.inside, options)
    },

    async write(path, content, options = {}) {
      const top = await root(options)
      const { absolute, inside } = locateInside(top, path)
      const isFolder = new CofferdamError('invalid_request', `${path} is a folder, not a file.`)
      if (inside === '' || path.endsWith('/')) throw isFolder
      try {
        return await upload(inside, content, options)
      } catch (error) {
        if (!isRefusal(error)) throw error
      }
      // The API refused the path: a folder in it may be a link, or the path itself may name a folder.
      const name = absolute.slice(absolute.lastIndexOf('/') + 1)
      const parent = await ask({ kind: 'folder', path: absolute.slice(0, -name.length - 1) }, options)
      const real = locateInside(top, `${parent}/${name}`)
      const found = await ask({ kind: 'stat', path: real.absolute }, options)
      if (found?.type === 'directory') throw isFolder
      await upload(real.inside, content, options)
    },

    async stat(path, options = {}) {
      return ask({ kind: 'stat', path: locate(await root(options), path).absolute }, options)
    },

    async list(path, options = {}) {
      const { absolute } = locate(await root(options), path)
      const entries = await ask({ kind: 'list', path: absolute }, options)
      if (entries !== null) return entries
      const found = await ask({ kind: 'stat', path: absolute }, options)
      if (found === null) return null
      throw new CofferdamError('invalid_request', `${path} is not a folder.`)
    },

    async remove(path, options = {}) {
      return ask({ kind: 'remove', path: locateInside(await root(options), path).absolute }, options)
    },

    async makeFolder(path, options = {}) {
      await ask({ kind: 'folder', path: locateInside(await root(options), path).absolute }, options)
    },

    async setMode(path, mode, options = {}) {
      const { absolute } = locateInside(await root(options), path)
      const isThere = await ask({ kind: 'mode', path: absolute, mode }, options)
      if (!isThere) throw new CofferdamError('not_found', `There is no file ${path}.`)
    },
  }
}

const bytesOf = (base64: string): Uint8Array => {
  const binary = atob(base64)
  return Uint8Array.from(binary, (character) => character.codePointAt(0) ?? 0)
}
