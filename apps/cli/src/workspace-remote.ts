/** A tenant's workspace at the API: all files of one version, read and replaced as a whole. */
import { BOUNDS, isCofferdamError, parse, type ProgramFile } from '@cofferdam/contract'
import { ArchiveRefusal, packArchive, unpackArchive } from '@cofferdam/workspace-sync'
import { z } from 'zod'
import { tenantPath, type ApiConnection } from './api-connection.ts'
import { CommandFailure } from './command.ts'

/** The largest answer: files that do not compress, in base64, with the archive's headers and the JSON. */
const ANSWER_MAX = BOUNDS.workspaceBytes * 2

export interface Remote {
  version: number
  /** Identifies exactly these files. Undefined from an older API. */
  revision?: string | undefined
  files: ProgramFile[]
}

export interface RemoteWorkspace {
  /** Null when there is none. Throws `CommandFailure` for an archive that breaks the workspace rules. */
  read(): Promise<Remote | null>
  /**
   * Returns the new version. Null when the workspace has changed since `expected`. If `expected` is null, no
   * workspace may exist. Throws `CommandFailure` for files that do not fit.
   */
  replace(
    expected: Pick<Remote, 'version' | 'revision'> | null,
    files: readonly ProgramFile[],
  ): Promise<number | null>
}

// Unknown fields are allowed, because a newer API may send more.
const readSchema = z.object({
  version: z.int(),
  revision: z.string().optional(),
  archive_base64: z.base64(),
})
const replacedSchema = z.object({ version: z.int() })

/** Connects to the workspace. Sends nothing before the first call. */
export function remoteWorkspace(api: ApiConnection, tenantId: string, name: string): RemoteWorkspace {
  const route = `${tenantPath(tenantId)}/workspaces/${encodeURIComponent(name)}`
  return {
    async read() {
      try {
        const { archive_base64: archive, ...read } = parse(
          readSchema,
          JSON.parse((await bounded(api.stream(route))).toString()),
          'the answer',
        )
        return { ...read, files: await orFailure(unpackArchive(Buffer.from(archive, 'base64'))) }
      } catch (error) {
        if (isCofferdamError(error) && error.code === 'not_found') return null
        throw error
      }
    },
    async replace(expected, files) {
      const archive = (await orFailure(packArchive(files))).toString('base64')
      const body = {
        archive_base64: archive,
        expected_version: expected?.version ?? 0,
        ...(expected?.revision === undefined ? {} : { expected_revision: expected.revision }),
      }
      try {
        return (await api.ask(replacedSchema, 'PUT', route, body)).version
      } catch (error) {
        if (isCofferdamError(error) && error.code === 'conflict') return null
        throw error
      }
    },
  }
}

/** Turns the refusal of an archive into a `CommandFailure`. */
async function orFailure<T>(archive: Promise<T>): Promise<T> {
  try {
    return await archive
  } catch (error) {
    throw error instanceof ArchiveRefusal ? new CommandFailure(error.message, { cause: error }) : error
  }
}

async function bounded(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const kept: Uint8Array[] = []
  let size = 0
  for await (const piece of pieces) {
    size += piece.length
    if (size > ANSWER_MAX)
      throw new CommandFailure(
        `The API sent more than ${ANSWER_MAX} bytes for a workspace, which is above the limit. Nothing ` +
          `was changed.`,
      )
    kept.push(piece)
  }
  return Buffer.concat(kept, size)
}
