/**
 * /v1/sessions/{backend}/{key}/files: what lies in a session's work directory. Each call has its turn in the session like an
 * execution (docs/decisions/0012); 202 with `Location` when that takes longer than 25 s.
 */
import { acceptedSchema, BOUNDS, CofferdamError, pathSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { requireEnded } from '../find-execution.ts'
import type { App, RouteContext } from '../route-context.ts'
import { blobSource, sendBytes } from '../send-bytes.ts'
import { operateOnSession, sessionParams, sessionQuery } from '../session-operation.ts'
import { FAILURES } from '../wire-schemas.ts'
import { attachment } from './get-artifacts.ts'

const fileParams = sessionParams.extend({ '*': pathSchema })
const PATH = '/sessions/:backend/:key/files/*'
const bytes = { content: { 'application/octet-stream': { schema: z.string() } } }

const listingSchema = z.strictObject({
  files: z.array(z.strictObject({ path: z.string(), size: z.int().min(0) })),
  truncated: z.boolean().meta({ description: 'There are more: ask for a folder.' }),
})

/** Adds the routes. */
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
          200: { description: 'The whole file.', ...bytes },
          202: acceptedSchema,
          206: { description: 'The range asked for.', ...bytes },
          304: z.undefined().describe('It is what If-None-Match names.'),
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
      const [file] = artifactRefs
      const source = file === undefined ? null : await blobSource(context.store.blobs, file.ref)
      if (file === undefined || source === null) throw new CofferdamError('not_found', 'The file is gone.')
      return sendBytes(request, reply, source, {
        contentType: 'application/octet-stream',
        etag: file.sha256,
        disposition: attachment(path),
      })
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
      const what = { params, query, op: 'remove' as const, path: params['*'] }
      const { accepted } = await operateOnSession(context, request, reply, what)
      return accepted === null ? reply.code(204).send() : reply.code(202).send(accepted)
    },
  )

  // A scope of its own: nowhere else is a body anything but JSON.
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
          summary: 'Write one file of a session, at most 8 MiB; folders are made.',
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
        const what = { params, query, op: 'write' as const, files: [file] }
        const { accepted } = await operateOnSession(context, request, reply, what)
        return accepted === null ? reply.code(204).send() : reply.code(202).send(accepted)
      },
    )
  })
}
