/** A tenant's workspace as the API has it: all of its files with the version they are, read and replaced as a whole. */
import { BOUNDS, isCofferdamError, parse, type ProgramFile } from '@cofferdam/contract'
import { ArchiveRefusal, packArchive, unpackArchive } from '@cofferdam/workspace-sync'
import { z } from 'zod'
import type { ApiConnection } from './api-connection.ts'
import { CommandFailure } from './command-failure.ts'

/** Files that do not compress, in base64, with an archive's headers and JSON around them. */
const ANSWER_MAX = BOUNDS.workspaceBytes * 2

export interface Remote {
  version: number
  /** What stands for exactly this; undefined from an API that is older. */
  revision?: string | undefined
  files: ProgramFile[]
}

export interface RemoteWorkspace {
  /** Null when there is none. Throws CommandFailure for an archive that no workspace of ours would be. */
  read(): Promise<Remote | null>
  /** The new version; null when the workspace is not `expected` any more (null: there is none). Throws CommandFailure for files that do not fit. */
  replace(
    expected: Pick<Remote, 'version' | 'revision'> | null,
    files: readonly ProgramFile[],
  ): Promise<number | null>
}

// Read leniently: an API that is newer may say more.
const readSchema = z.object({
  version: z.int(),
  revision: z.string().optional(),
  archive_base64: z.base64(),
})
const replacedSchema = z.object({ version: z.int() })

/** Talks to nobody before it is asked. */
export function remoteWorkspace(api: ApiConnection, tenantId: string, name: string): RemoteWorkspace {
  const route = `/v1/tenants/${encodeURIComponent(tenantId)}/workspaces/${encodeURIComponent(name)}`
  return {
    async read() {
      try {
        const { archive_base64: archive, ...read } = parse(
          readSchema,
          JSON.parse((await bounded(api.stream(route))).toString()),
          'the answer',
        )
        return { ...read, files: await carried(unpackArchive(Buffer.from(archive, 'base64'))) }
      } catch (error) {
        if (isCofferdamError(error) && error.code === 'not_found') return null
        throw error
      }
    },
    async replace(expected, files) {
      const archive = (await carried(packArchive(files))).toString('base64')
      const body = {
        archive_base64: archive,
        expected_version: expected?.version ?? 0,
        ...(expected?.revision === undefined ? {} : { expected_revision: expected.revision }),
      }
      try {
        return parse(replacedSchema, await api.call('PUT', route, body), 'the answer').version
      } catch (error) {
        if (isCofferdamError(error) && error.code === 'conflict') return null
        throw error
      }
    },
  }
}

async function carried<T>(archive: Promise<T>): Promise<T> {
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
      throw new CommandFailure(`The API sent more than ${ANSWER_MAX} bytes for a workspace.`)
    kept.push(piece)
  }
  return Buffer.concat(kept, size)
}
