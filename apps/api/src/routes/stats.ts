/** GET /v1/stats: figures by minute of attempts that ended. A tenant key sees its own attempts only. */
import { SERIES_STEPS, statsSchema, type SeriesFigureLists, type SeriesStep } from '@cofferdam/contract'
import { MAX_SERIES_GROUPS, SERIES_GROUPS, type Series, type SeriesFigures } from '@cofferdam/store'
import { z } from 'zod'
import { holderOf, tenantFilter } from '../authenticate.ts'
import type { App, RouteContext } from '../route-context.ts'
import { createShares } from '../shares.ts'
import { FAILURES, tenantQuery, timeQuery } from '../wire-schemas.ts'

/** The range when the caller names no start. */
const DEFAULT_RANGE_MS = 3_600_000

/**
 * Statements of this route at once. They use the 6 connections that all tenants share. One caller may run
 * half of these statements.
 */
const AT_ONCE = 4

const STEPS = Object.keys(SERIES_STEPS) as [SeriesStep, ...SeriesStep[]]

const statsQuery = z.strictObject({
  tenant_id: tenantQuery.meta({
    description: 'Only attempts of this tenant. Default: the key’s tenant, or with an admin key all tenants.',
    example: 'demo',
  }),
  from: timeQuery.optional().meta({
    description:
      'Attempts that ended at or after this time, at most 24 hours before the end. Default: one hour ' +
      'before it.',
  }),
  to: timeQuery.optional().meta({ description: 'Attempts that ended before this time. Default: now.' }),
  step: z
    .enum(STEPS)
    .optional()
    .meta({ description: 'Length of a step. Steps begin at whole multiples of it in UTC. Default: 1m.' }),
  group_by: z
    .enum(SERIES_GROUPS)
    .optional()
    .meta({
      description:
        `What to group by. Shows the ${MAX_SERIES_GROUPS} largest groups, and the others together. ` +
        'Default: no groups.',
    }),
})

export function stats(app: App, context: RouteContext): void {
  const slots = createShares(AT_ONCE, 'figures by minute')
  app.get(
    '/stats',
    {
      schema: {
        operationId: 'getStats',
        tags: ['queue'],
        summary:
          'How many attempts ended in each step of time, how long they waited and ran, and their cost.',
        description:
          'Computed from audit rows. An attempt counts in the step in which it ended. Without attempts, ' +
          'count and cost are 0. At most 50,000 attempts are read, the newest first: counted_from says ' +
          'where the figures begin.',
        querystring: statsQuery,
        response: { 200: statsSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { query } = request
      const tenantId = tenantFilter(request, query.tenant_id)
      const toMs = query.to === undefined ? context.now() : Date.parse(query.to)
      const fromMs = query.from === undefined ? toMs - DEFAULT_RANGE_MS : Date.parse(query.from)
      using _slot = slots.require(holderOf(request))
      const series = await context.store.series({
        tenantId,
        fromMs,
        toMs,
        groupBy: query.group_by,
        stepMs: SERIES_STEPS[query.step ?? '1m'],
      })
      const filled = filler(series)
      return {
        starts_at: new Date(series.fromMs).toISOString(),
        ends_at: new Date(series.toMs).toISOString(),
        step_ms: series.stepMs,
        group_by: query.group_by ?? null,
        counted_from: new Date(series.countedFromMs).toISOString(),
        total: filled(series.total),
        groups: series.groups.map(({ key, steps }) => ({ key, ...filled(steps) })),
        rest: series.rest === null ? null : filled(series.rest),
      }
    },
  )
}

/** Makes lists with an entry for every step of a series: 0 attempts, or null where they were not counted. */
function filler({ fromMs, toMs, stepMs, countedFromMs }: Series) {
  const steps = Array.from({ length: (toMs - fromMs) / stepMs }, (_, step) => step)
  const counted = (countedFromMs - fromMs) / stepMs
  const isCount = (field: keyof SeriesFigures) => field === 'count' || field === 'cost'
  return (found: Map<number, SeriesFigures>): SeriesFigureLists => {
    const listOf = (field: keyof SeriesFigures) =>
      steps.map((step) => found.get(step)?.[field] ?? (step >= counted && isCount(field) ? 0 : null))
    return {
      count: listOf('count'),
      wait_p50_ms: listOf('wait_p50_ms'),
      wait_p95_ms: listOf('wait_p95_ms'),
      run_p50_ms: listOf('run_p50_ms'),
      run_p95_ms: listOf('run_p95_ms'),
      cost: listOf('cost'),
    }
  }
}
