/**
 * /v1/sessions/{backend}/{key}/files: the files in a session's work directory. Each call waits its turn in
 * the session like an execution (docs/decisions/0012). It answers 202 with `Location` after 25 s.
 */
import { acceptedSchema, BOUNDS, pathSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { requireEnded } from '../find-execution.ts'
import type { App, RouteContext } from '../route-context.ts'
import { byteResponses, sendFile } from '../send-bytes.ts'
import { changeSession, operateOnSession, sessionParams, sessionQuery } from '../session-operation.ts'
import { FAILURES } from '../wire-schemas.ts'

const fileParams = sessionParams.extend({ '*': pathSchema })
const PATH = '/sessions/:backend/:key/files/*'

const listingSchema = z.strictObject({
  files: z.array(z.strictObject({ path: z.string(), size: z.int().min(0) })),
  truncated: z.boolean().meta({ description: 'There are more: ask for a folder.' }),
})

export function sessionFiles(app: App, context: RouteContext): void {
  app.get(
    '/sessions/:backend/:key/files',
    {
      schema: {
        operationId: 'listSessionFiles',
        tags: ['sessions'],
        summary: 'The files of a session, or of a folder of it: at most 1,000, and 32 KiB of names.',
        params: sessionParams,
        querystring: sessionQuery.extend({ folder: pathSchema.optional() }),
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
        summary: 'One file of a session, at most 8 MiB, as it is now; takes Range.',
        description: 'Always a download: a program wrote it, so no browser may show it as a page.',
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
      return changeSession(context, request, reply, { params, query, op: 'remove', path: params['*'] })
    },
  )

  // In its own scope, because all other routes accept JSON bodies only.
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
          description: 'The body is the file, as application/octet-stream.',
          params: fileParams,
          querystring: sessionQuery,
          body: z.instanceof(Buffer).or(z.undefined()).meta({ type: 'string', format: 'binary' }),
          response: { 202: acceptedSchema, 204: z.undefined().describe('It is there.'), ...FAILURES },
        },
      },
      async (request, reply) => {
        const { params, query, body } = request
        const file = { path: params['*'], content_base64: (body ?? Buffer.alloc(0)).toString('base64') }
        return changeSession(context, request, reply, { params, query, op: 'write', files: [file] })
      },
    )
  })
}
