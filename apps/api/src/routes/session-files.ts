/**
 * /v1/backends/{backend}/sessions/{key}/files: the files in a session's work directory. Each call waits its
 * turn in the session like an execution (docs/decisions/0012). It answers 202 with `Location` after 25 s.
 */
import { acceptedSchema, BOUNDS, pathSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { requireEnded } from '../find-execution.ts'
import type { App, RouteContext } from '../route-context.ts'
import { byteResponses, FILE_IS_DOWNLOAD, sendFile } from '../send-bytes.ts'
import { changeSession, operateOnSession, sessionParams, sessionQuery } from '../session-operation.ts'
import { FAILURES } from '../wire-schemas.ts'

const fileParams = sessionParams.extend({ '*': pathSchema.meta({ description: 'The path of the file.' }) })
const PATH = '/backends/:backend/sessions/:key/files/*'

const listingSchema = z.strictObject({
  files: z
    .array(
      z.strictObject({
        path: z.string().meta({ description: 'Relative to the work directory.', example: 'out/report.csv' }),
        size: z.int().min(0).meta({ description: 'Bytes.', example: 1024 }),
      }),
    )
    .meta({ description: 'Regular files.' }),
  truncated: z.boolean().meta({ description: 'Whether files are left out. If so, list a single folder.' }),
})

export function sessionFiles(app: App, context: RouteContext): void {
  app.get(
    '/backends/:backend/sessions/:key/files',
    {
      schema: {
        operationId: 'listSessionFiles',
        tags: ['sessions'],
        summary:
          'The files of a session, or of one of its folders: at most 1,000, and at most 32 KiB of names.',
        params: sessionParams,
        querystring: sessionQuery.extend({
          folder: pathSchema
            .optional()
            .meta({ description: 'Only files of this folder. Default: all.', example: 'out' }),
        }),
        response: { 200: listingSchema, 202: acceptedSchema, ...FAILURES },
      },
    },
    async (request, reply) => {
      const { params, query } = request
      const { folder } = query
      const path = folder === undefined ? {} : { path: folder }
      const what = { params, query, op: 'list' as const, ...path }
      const done = await operateOnSession(context, request, reply, what)
      if (done.accepted !== null) return reply.code(202).send(done.accepted)
      return listingSchema.parse(done.result.value)
    },
  )

  app.get(
    PATH,
    {
      schema: {
        operationId: 'getSessionFile',
        tags: ['sessions'],
        summary: 'One file of a session as it is now, at most 8 MiB. Supports Range requests.',
        description: FILE_IS_DOWNLOAD,
        params: fileParams,
        querystring: sessionQuery,
        response: {
          ...byteResponses('application/octet-stream', 'file'),
          202: acceptedSchema,
          ...FAILURES,
        },
      },
    },
    async (request, reply) => {
      const { params, query } = request
      const path = params['*']
      const what = { params, query, op: 'read' as const, path }
      const done = await operateOnSession(context, request, reply, what)
      if (done.accepted !== null) return reply.code(202).send(done.accepted)
      const { artifactRefs } = await requireEnded(context, done.tenantId, done.result.execution_id)
      const file = artifactRefs[0]
      const found = file === undefined ? undefined : { ...file, path }
      return sendFile(request, reply, context.store.blobs, found, 'The file is gone.')
    },
  )

  app.delete(
    PATH,
    {
      schema: {
        operationId: 'deleteSessionFile',
        tags: ['sessions'],
        summary: 'Remove one file of a session.',
        params: fileParams,
        querystring: sessionQuery,
        response: { 202: acceptedSchema, 204: z.undefined().describe('It is gone.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { params, query } = request
      const what = { params, query, op: 'remove', path: params['*'] } as const
      return changeSession(context, request, reply, { ...what, action: 'session_file_removed' })
    },
  )

  // This route has a fastify scope of its own, because all other routes must accept JSON bodies only.
  void app.register(async (scope) => {
    const raw = scope as App
    raw.addContentTypeParser('application/octet-stream', context.readBody)
    raw.put(
      PATH,
      {
        bodyLimit: BOUNDS.fileBytes,
        schema: {
          operationId: 'putSessionFile',
          tags: ['sessions'],
          summary: 'Write one file of a session, at most 8 MiB; missing folders are created.',
          description:
            'The body is the file, as application/octet-stream. Without a body, the file is empty.',
          params: fileParams,
          querystring: sessionQuery,
          consumes: ['application/octet-stream'],
          body: z
            .instanceof(Buffer)
            .or(z.undefined())
            .meta({ json: { type: 'string', format: 'binary' } }),
          response: { 202: acceptedSchema, 204: z.undefined().describe('It is written.'), ...FAILURES },
        },
      },
      async (request, reply) => {
        const { params, query, body } = request
        const file = { path: params['*'], content_base64: (body ?? Buffer.alloc(0)).toString('base64') }
        const what = { params, query, op: 'write' as const, files: [file] }
        return changeSession(context, request, reply, { ...what, action: 'session_file_written' })
      },
    )
  })
}
