/**
 * GET /v1/sessions/{id}/outputs and outputs/{path}: what the file operation `collect` stored for a session.
 * The ID is the `run_id` of the executions that collected it. Neither call reaches a sandbox.
 */
import {
  artifactSchema,
  executionIdSchema,
  nameSchema,
  omittedArtifactSchema,
  pathSchema,
  timeSchema,
} from '@cofferdam/contract'
import type { SessionOutput } from '@cofferdam/store'
import { z } from 'zod'
import { oneTenant } from '../authenticate.ts'
import type { App, RouteContext } from '../route-context.ts'
import { byteResponses, FILE_IS_DOWNLOAD, sendFile } from '../send-bytes.ts'
import {
  DEFAULT_PAGE,
  FAILURES,
  limitQuery,
  namedFields,
  nextCursorSchema,
  tenantQuery,
} from '../wire-schemas.ts'

const outputsParams = z.strictObject({
  id: nameSchema.meta({
    description: 'The `run_id` of the executions that collected the files.',
    example: 'sesn_0123',
  }),
})
const outputsQuery = z.strictObject({ tenant_id: tenantQuery })

/** A cursor contains a path in base64: 512 characters of 3 bytes, or more if secrets were replaced in it. */
const pathCursor = z.string().min(1).max(8192).meta({
  description: 'next_cursor of the page before, for the same session and tenant. Default: the first page.',
  example: 'AYx3…',
})

const outputSchema = artifactSchema.extend({
  path: z.string().meta({ description: 'Relative to the folder that was collected.', example: 'report.pdf' }),
  execution_id: executionIdSchema.meta({ description: 'The collection that stored this version.' }),
  stored_at: timeSchema.meta({ description: 'When it was stored.' }),
})

const outputsSchema = z.strictObject({
  outputs: z.array(outputSchema).meta({ description: 'The newest version of each path, by path.' }),
  newest: z
    .strictObject({
      execution_id: executionIdSchema.meta({ description: 'The collection.' }),
      stored_at: timeSchema.meta({ description: 'When it was stored.' }),
      omitted: z.array(omittedArtifactSchema).meta({ description: 'Files that it left out.' }),
      incomplete: z.boolean().meta({
        description: 'Whether it may have missed files that are not named here.',
      }),
    })
    .nullable()
    .meta({ description: 'The newest collection, with what it left out. Null if there is none.' }),
  truncated: z
    .boolean()
    .meta({ description: 'True if there are too many collections. The oldest ones are left out then.' }),
  next_cursor: nextCursorSchema,
})

export function sessionOutputs(app: App, context: RouteContext): void {
  const { store, cursors } = context

  app.get(
    '/sessions/:id/outputs',
    {
      schema: {
        operationId: 'listSessionOutputs',
        tags: ['sessions'],
        summary: 'The newest version of each file that was collected from a session, by path.',
        description:
          'A collection is an execution of the file operation collect. What it stored outlives the sandbox ' +
          'and is kept as long as artifacts.',
        params: outputsParams,
        querystring: outputsQuery.extend({ limit: limitQuery.optional(), cursor: pathCursor.optional() }),
        response: { 200: outputsSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { id: runId } = request.params
      const { tenant_id, cursor, limit = DEFAULT_PAGE } = request.query
      const tenantId = oneTenant(request, tenant_id)
      return cursors.page({ list: `outputs of ${runId}`, tenantId }, cursor, async (after) => {
        const asked = { tenantId, runId, nowMs: context.now(), limit, ...namedFields({ after }) }
        const { rows, next_cursor, newest, truncated } = await store.listOutputs(asked)
        return {
          outputs: rows.map(shown),
          newest:
            newest === null
              ? null
              : {
                  execution_id: newest.executionId,
                  stored_at: newest.storedAt,
                  omitted: newest.omitted,
                  incomplete: newest.incomplete,
                },
          truncated,
          next_cursor,
        }
      })
    },
  )

  app.get(
    '/sessions/:id/outputs/*',
    {
      schema: {
        operationId: 'getSessionOutput',
        tags: ['sessions'],
        summary: 'The newest version of one output. Supports Range requests.',
        description: FILE_IS_DOWNLOAD,
        params: outputsParams.extend({ '*': pathSchema.meta({ description: 'The path of the output.' }) }),
        querystring: outputsQuery,
        response: { ...byteResponses('application/octet-stream', 'file'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { id: runId, '*': path } = request.params
      const tenantId = oneTenant(request, request.query.tenant_id)
      const found = await store.findOutput({ tenantId, runId, nowMs: context.now(), path })
      const missing = 'The session has no output of that path, or it has expired.'
      return sendFile(request, reply, store.blobs, found ?? undefined, missing)
    },
  )
}

const shown = ({
  path,
  size,
  sha256,
  executionId,
  storedAt,
}: SessionOutput): z.output<typeof outputSchema> => ({
  path,
  size,
  sha256,
  execution_id: executionId,
  stored_at: storedAt,
})
