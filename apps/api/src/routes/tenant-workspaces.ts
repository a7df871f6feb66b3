/** GET /v1/tenants/{id}/workspaces, and GET, PUT and DELETE of one of them as a zip archive. */
import { CofferdamError, nameSchema, timeSchema } from '@cofferdam/contract'
import {
  ArchiveRefusal,
  isNever,
  manifestOf,
  packArchive,
  revisionOf,
  sha256Of,
  unpackArchive,
} from '@cofferdam/workspace-sync'
import { z } from 'zod'
import { recordAction } from '../record-action.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, tenantParams } from '../wire-schemas.ts'

const workspaceParams = tenantParams.extend({
  name: nameSchema.meta({ description: 'The workspace.', example: 'notes' }),
})
/** 16 MiB of files that do not compress, plus the archive's own headers. */
const MAX_ARCHIVE_BASE64 = 24 * 1024 * 1024
/** A read is repeated when somebody commits between reading the manifest and the contents. */
const MAX_ROUNDS = 8

const versionSchema = z
  .int()
  .meta({ description: 'Number of its last change, from 1 when it was created.', example: 4 })
const fileCount = z.int().meta({ description: 'Number of its files.', example: 12 })
const archiveExample = 'UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA=='

const summarySchema = z.strictObject({
  name: z.string().meta({ description: 'The workspace.', example: 'notes' }),
  version: versionSchema,
  files: fileCount,
  bytes: z.int().meta({ description: 'Size of all files, bytes.', example: 48_000 }),
  updated_at: timeSchema.meta({ description: 'When it was last changed.' }),
})

export function tenantWorkspaces(app: App, context: RouteContext): void {
  const { workspaces } = context.store

  app.get(
    '/tenants/:id/workspaces',
    {
      schema: {
        operationId: 'listWorkspaces',
        tags: ['workspaces'],
        summary: 'The workspaces of a tenant, by name. There are at most 1,000.',
        params: tenantParams,
        response: {
          200: z.strictObject({
            workspaces: z.array(summarySchema).meta({ description: 'All of them.' }),
          }),
          ...FAILURES,
        },
      },
    },
    async (request) => ({ workspaces: await workspaces.list(request.params.id) }),
  )

  app.get(
    '/tenants/:id/workspaces/:name',
    {
      schema: {
        operationId: 'getWorkspace',
        tags: ['workspaces'],
        summary: 'All files of a workspace as a zip archive, with its version.',
        params: workspaceParams,
        response: {
          200: z.strictObject({
            version: versionSchema,
            revision: z.string().meta({
              description: 'Identifies exactly these files under this version.',
              example: '9f86d081884c7d65',
            }),
            archive_base64: z.string().meta({
              description: 'Zip archive of all files, in base64.',
              example: archiveExample,
            }),
          }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const { id, name } = request.params
      const at = { tenantId: id, name }
      for (let round = 0; round < MAX_ROUNDS; round += 1) {
        const { version, manifest } = await workspaces.read(at)
        if (version === 0) throw new CofferdamError('not_found', 'The tenant has no workspace of that name.')
        const hashes = [...new Set([...manifest.values()].map(({ sha256 }) => sha256))]
        const contents = await workspaces.contents(at, hashes)
        if (contents.size < hashes.length) continue
        const files = [...manifest].map(([path, { sha256, mode }]) => ({
          path,
          bytes: contents.get(sha256) ?? new Uint8Array(),
          executable: (mode & 0o100) !== 0,
        }))
        const archive = await packArchive(files)
        const revision = revisionOf(version, manifest)
        return { version, revision, archive_base64: archive.toString('base64') }
      }
      throw new CofferdamError('conflict', 'The workspace changes faster than it can be read. Try again.')
    },
  )

  app.put(
    '/tenants/:id/workspaces/:name',
    {
      schema: {
        operationId: 'putWorkspace',
        tags: ['workspaces'],
        summary: 'Replace all files of a workspace with those of a zip archive, or create it.',
        description:
          'All or nothing. An archive is refused if it contains links, devices, names that lead out of the ' +
          'folder, or names that are the same file on some systems. It is also refused if it has more than ' +
          'a workspace may hold, files below more than 32 folders, or files that look like secrets. 409 ' +
          'too_many_workspaces if the tenant would get more than 1,000 workspaces.',
        params: workspaceParams,
        body: z.strictObject({
          archive_base64: z.base64().max(MAX_ARCHIVE_BASE64).meta({
            description: 'Zip archive of all files, in base64. The files may have 16 MiB in all.',
            example: archiveExample,
          }),
          expected_version: z.int().min(0).meta({
            description:
              'The version that it replaces, 0 for a new one. 409 when the workspace has another version.',
            example: 3,
          }),
          expected_revision: z
            .string()
            .max(64)
            .optional()
            .meta({
              description:
                'The revision that was read. 409 if it has changed. Unlike the version, it also tells ' +
                'apart a workspace that was deleted and created again. Default: not compared.',
              example: '9f86d081884c7d65',
            }),
        }),
        response: { 200: z.strictObject({ version: versionSchema, files: fileCount }), ...FAILURES },
      },
    },
    async (request) => {
      const { id, name } = request.params
      const { archive_base64, expected_version, expected_revision: revision } = request.body
      const files = await unpacked(Buffer.from(archive_base64, 'base64'))
      const at = { tenantId: id, name }
      const replaced = revision === undefined ? null : await workspaces.read(at)
      const isOther = replaced !== null && revisionOf(replaced.version, replaced.manifest) !== revision
      const change = {
        expectedVersion: expected_version,
        ...(replaced === null ? {} : { expectedManifest: replaced.manifest }),
        manifest: manifestOf(files),
        contents: new Map(files.map(({ bytes }) => [sha256Of(bytes), bytes])),
      }
      const version = isOther ? null : await workspaces.commit(at, change)
      if (version === null)
        throw new CofferdamError('conflict', 'The workspace has changed since it was read. Read it again.')
      const details = { name, version, files: files.length }
      await recordAction(context, request, id, 'workspace_replaced', details)
      return { version, files: files.length }
    },
  )

  app.delete(
    '/tenants/:id/workspaces/:name',
    {
      schema: {
        operationId: 'deleteWorkspace',
        tags: ['workspaces'],
        summary: 'Delete a workspace and its files. May be repeated.',
        params: workspaceParams,
        response: { 204: z.undefined().describe('The workspace does not exist.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { id, name } = request.params
      await workspaces.remove({ tenantId: id, name })
      await recordAction(context, request, id, 'workspace_deleted', { name })
      return reply.code(204).send()
    },
  )
}

async function unpacked(archive: Buffer) {
  try {
    const files = await unpackArchive(archive)
    const secret = files.find(({ path }) => isNever(path))
    if (secret !== undefined)
      throw new CofferdamError(
        'invalid_request',
        `${secret.path} looks like a secret. Workspaces never contain secrets.`,
      )
    return files
  } catch (error) {
    if (error instanceof ArchiveRefusal)
      throw new CofferdamError('invalid_request', error.message, { details: { reason: error.reason } })
    throw error
  }
}
