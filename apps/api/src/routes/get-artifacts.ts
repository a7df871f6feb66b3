/** GET /v1/executions/{id}/artifacts and /artifacts/{path}: files that a program left. */
import { CofferdamError, artifactSchema, pathSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { tenantScope } from '../authenticate.ts'
import { requireEnded } from '../find-execution.ts'
import type { App, RouteContext } from '../route-context.ts'
import { blobSource, sendBytes } from '../send-bytes.ts'
import { FAILURES, executionParams } from '../wire-schemas.ts'

const bytes = { content: { 'application/octet-stream': { schema: z.string() } } }

/** Adds the routes. */
export function getArtifacts(app: App, context: RouteContext): void {
  app.get(
    '/executions/:id/artifacts',
    {
      schema: {
        operationId: 'listArtifacts',
        tags: ['executions'],
        summary: 'The artifacts of an ended execution.',
        params: executionParams,
        response: { 200: z.strictObject({ artifacts: z.array(artifactSchema) }), ...FAILURES },
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
        summary: 'One artifact; takes Range.',
        description: 'Always a download: a program wrote it, so no browser may show it as a page.',
        params: executionParams.extend({ '*': pathSchema }),
        response: {
          200: { description: 'The whole file.', ...bytes },
          206: { description: 'The range asked for.', ...bytes },
          304: z.undefined().describe('It is what If-None-Match names.'),
          ...FAILURES,
        },
      },
    },
    async (request, reply) => {
      const path = request.params['*']
      const ended = await requireEnded(context, tenantScope(request), request.params.id)
      const artifact = ended.artifactRefs.find((candidate) => candidate.path === path)
      const source = artifact === undefined ? null : await blobSource(context.store.blobs, artifact.ref)
      if (artifact === undefined || source === null) {
        throw new CofferdamError('not_found', 'The execution has no artifact of that path.')
      }
      return sendBytes(request, reply, source, {
        contentType: 'application/octet-stream',
        etag: artifact.sha256,
        disposition: attachment(path),
      })
    },
  )
}

/** Content-Disposition with the file's last name (RFC 6266, RFC 8187). */
export function attachment(path: string): string {
  const name = path.split('/').at(-1) ?? 'artifact'
  const ascii = name.replaceAll(/[^A-Za-z0-9._-]/g, '_')
  const encoded = encodeURIComponent(name).replaceAll(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`
}
