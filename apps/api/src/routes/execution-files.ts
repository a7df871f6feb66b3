/** GET /v1/executions/{id}/output/{stream}, /artifacts and /artifacts/{path}, of an ended execution. */
import { artifactSchema, CofferdamError, pathSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { tenantScope } from '../authenticate.ts'
import { findState, requireEnded, type EndedExecution } from '../find-execution.ts'
import type { App, RouteContext } from '../route-context.ts'
import {
  blobSource,
  byteResponses,
  bytesSource,
  FILE_IS_DOWNLOAD,
  sendBytes,
  sendFile,
  type ByteSource,
} from '../send-bytes.ts'
import { executionParams, FAILURES } from '../wire-schemas.ts'

export function executionFiles(app: App, context: RouteContext): void {
  app.get(
    '/executions/:id/output/:stream',
    {
      schema: {
        operationId: 'getOutput',
        tags: ['executions'],
        summary: 'The full redacted output of an ended execution, up to 16 MiB. Supports Range requests.',
        description: 'Where the full output is not kept (any more), the text of the result is sent.',
        params: executionParams.extend({
          stream: z.enum(['stdout', 'stderr']).meta({ description: 'Which output.' }),
        }),
        headers: z.looseObject({
          range: z.string().max(200).optional().meta({
            description: 'Only these bytes (RFC 9110 §14). Default: all.',
            example: 'bytes=0-1023',
          }),
        }),
        response: { ...byteResponses('text/plain', 'output'), ...FAILURES },
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

  app.get(
    '/executions/:id/artifacts',
    {
      schema: {
        operationId: 'listArtifacts',
        tags: ['executions'],
        summary: 'The artifacts of an ended execution.',
        params: executionParams,
        response: {
          200: z.strictObject({
            artifacts: z.array(artifactSchema).meta({ description: 'All of them.' }),
          }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const ended = await requireEnded(context, tenantScope(request), request.params.id)
      return { artifacts: ended.result.artifacts }
    },
  )

  app.get(
    '/executions/:id/artifacts/*',
    {
      schema: {
        operationId: 'getArtifact',
        tags: ['executions'],
        summary: 'One artifact. Supports Range requests.',
        description: FILE_IS_DOWNLOAD,
        params: executionParams.extend({
          '*': pathSchema.meta({ description: 'The path of the artifact.' }),
        }),
        response: { ...byteResponses('application/octet-stream', 'file'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { id, '*': path } = request.params
      const ended = await requireEnded(context, tenantScope(request), id)
      const artifact = ended.artifactRefs.find((candidate) => candidate.path === path)
      const missing = 'The execution has no artifact of that path.'
      return sendFile(request, reply, context.store.blobs, artifact, missing)
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
