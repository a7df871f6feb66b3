/** GET /v1/executions/{id}/output/{stdout|stderr}: everything a program printed, redacted. */
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { tenantScope } from '../authenticate.ts'
import { findState, requireEnded, type EndedExecution } from '../find-execution.ts'
import type { App, RouteContext } from '../route-context.ts'
import { blobSource, bytesSource, sendBytes, type ByteSource } from '../send-bytes.ts'
import { FAILURES, executionParams } from '../wire-schemas.ts'

const params = executionParams.extend({ stream: z.enum(['stdout', 'stderr']) })
const text = { content: { 'text/plain': { schema: z.string() } } }

/** Adds the route. */
export function getOutput(app: App, context: RouteContext): void {
  app.get(
    '/executions/:id/output/:stream',
    {
      schema: {
        operationId: 'getOutput',
        tags: ['executions'],
        summary: 'The full redacted output of an ended execution; takes Range.',
        description: 'Where the full output is not kept (any more), the text of the result is sent.',
        params,
        headers: z.looseObject({ range: z.string().max(200).optional().meta({ example: 'bytes=0-1023' }) }),
        response: {
          200: { description: 'The whole output.', ...text },
          206: { description: 'The range asked for.', ...text },
          304: z.undefined().describe('It is what If-None-Match names.'),
          ...FAILURES,
        },
      },
    },
    async (request, reply) => {
      const { id, stream } = request.params
      const tenant = tenantScope(request)
      const { state } = await findState(context, tenant, id)
      if (state.status !== 'ended') {
        throw new CofferdamError('conflict', 'The execution has not ended; follow its events instead.')
      }
      const ended = await requireEnded(context, tenant, id)
      const source = await outputSource(context, ended, stream)
      return sendBytes(request, reply, source, {
        contentType: 'text/plain; charset=utf-8',
        etag: `${id}-${ended.last.attempt}-${stream}-${source.total}`,
      })
    },
  )
}

async function outputSource(
  context: RouteContext,
  ended: EndedExecution,
  stream: 'stdout' | 'stderr',
): Promise<ByteSource> {
  const ref = stream === 'stdout' ? ended.last.stdout_ref : ended.last.stderr_ref
  const full = ref === null ? null : await blobSource(context.store.blobs, ref)
  return full ?? bytesSource(Buffer.from(ended.result[stream]))
}
