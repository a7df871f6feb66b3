/** Figures per minute about attempts that ended, computed from audit rows. */
import { z } from 'zod'
import { timeSchema } from './name.ts'

export const SERIES_STEPS = { '1m': 60_000, '5m': 300_000, '15m': 900_000, '1h': 3_600_000 } as const
export type SeriesStep = keyof typeof SERIES_STEPS

const figures = (description: string, example: (number | null)[]) =>
  z.array(z.number().min(0).nullable()).meta({ description, example })

/** Each field has one entry per step. */
export const seriesSchema = z.strictObject({
  count: figures('Attempts that ended. Null where they were not counted.', [12, 0]),
  wait_p50_ms: figures('Median queue_ms, milliseconds. Null without attempts.', [16, null]),
  wait_p95_ms: figures('95th percentile of queue_ms, milliseconds.', [340, null]),
  run_p50_ms: figures(
    'Median duration_ms of attempts that opened a sandbox, milliseconds. Null without such attempts.',
    [82, null],
  ),
  run_p95_ms: figures('95th percentile of the same durations, milliseconds.', [900, null]),
  cost: figures('Cost in micro-units. Null where it was not counted.', [1440, 0]),
})
export type SeriesFigureLists = z.infer<typeof seriesSchema>

export const statsSchema = z.strictObject({
  starts_at: timeSchema.meta({ description: 'Start of the first step.' }),
  ends_at: timeSchema.meta({ description: 'End of the last step, exclusive.' }),
  step_ms: z.int().meta({ description: 'Length of a step, milliseconds.', example: 60_000 }),
  group_by: z.enum(['ending', 'backend', 'tenant']).nullable().meta({
    description: 'What groups stand for. Null without groups.',
  }),
  counted_from: timeSchema.meta({
    description:
      'Steps before this were not counted, because the range has too many attempts. Otherwise equal to ' +
      'starts_at.',
  }),
  total: seriesSchema.meta({ description: 'All attempts of the range.' }),
  groups: z
    .array(
      seriesSchema.extend({
        key: z.string().nullable().meta({
          description: 'The ending, backend or tenant. Null for attempts that opened no sandbox.',
          example: 'ok',
        }),
      }),
    )
    .meta({ description: 'At most 20, those with the most attempts first. Empty without group_by.' }),
  rest: seriesSchema.nullable().meta({ description: 'The other groups together. Null if there are none.' }),
})
export type Stats = z.infer<typeof statsSchema>
