/** What audit rows can be filtered by, on lists, exports and the feed. */
import { endingSchema, nameSchema } from '@cofferdam/contract'
import type { InvocationFilter } from '@cofferdam/store'
import { z } from 'zod'
import { pageFilter, pageQuery } from './page-query.ts'

export const auditQuery = pageQuery.extend({
  user_id: nameSchema.optional(),
  run_id: nameSchema.optional(),
  template_id: nameSchema.optional(),
  ending: endingSchema.optional(),
  backend: nameSchema.optional(),
  trace_id: z
    .string()
    .regex(/^[0-9a-f]{32}$/, 'expected 32 lowercase hex digits')
    .optional(),
  code_hash: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'expected 64 lowercase hex digits: the SHA-256 of the program')
    .optional(),
  outbound_host: z
    .string()
    .min(1)
    .max(260)
    .optional()
    .meta({ description: 'A host that the program reached, with or without `:port`.' }),
})

/**
 * The store's filter of an audit query. `tenantId` null means all tenants; `cursor` is the store's own
 * (cursors.ts).
 */
export function auditFilter(
  asked: Omit<z.output<typeof auditQuery>, 'cursor'>,
  tenantId: string | null,
  cursor?: string,
): InvocationFilter {
  return {
    ...pageFilter(asked, tenantId, cursor),
    ...(asked.user_id === undefined ? {} : { userId: asked.user_id }),
    ...(asked.run_id === undefined ? {} : { runId: asked.run_id }),
    ...(asked.template_id === undefined ? {} : { templateId: asked.template_id }),
    ...(asked.ending === undefined ? {} : { ending: asked.ending }),
    ...(asked.backend === undefined ? {} : { backend: asked.backend }),
    ...(asked.trace_id === undefined ? {} : { traceId: asked.trace_id }),
    ...(asked.code_hash === undefined ? {} : { codeHash: asked.code_hash }),
    ...(asked.outbound_host === undefined ? {} : { outboundHost: asked.outbound_host }),
  }
}
