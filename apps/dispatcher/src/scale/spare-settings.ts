/** How many spare pods a pool may have, and how soon it gives them up: settings of each pool. */
import { z } from 'zod'

export const spareSettingsSchema = z
  .strictObject({
    min: z
      .int()
      .min(0)
      .max(1000)
      .default(2)
      .describe('Spare pods that are always kept. The sample of GKE keeps 2 too.'),
    max: z
      .int()
      .min(0)
      .max(1000)
      .default(50)
      .describe(
        'Most spare pods. A number above the sessions that all dispatchers serve at once has no use. The ' +
          'sample of GKE allows 50.',
      ),
    safety: z
      .number()
      .min(0)
      .max(100)
      .default(2)
      .describe('Spare pods for each session that arrives while a pod is replaced.'),
    burst_margin: z
      .number()
      .min(0)
      .max(100)
      .default(10)
      .describe(
        'Further spare pods: this value times the square root of the sessions that arrive while a pod is ' +
          'replaced. docs/operations/dispatcher-scaling.md shows what each value costs and gives.',
      ),
    refill_seconds: z
      .number()
      .min(0.1)
      .max(120)
      .default(15)
      .describe(
        'Time until a used pod is replaced, as long as the dispatcher has measured none. 10–20 s are ' +
          'reported for GKE.',
      ),
    hold_seconds: z
      .number()
      .min(0)
      .max(86_400)
      .default(30)
      .describe('Spare pods are kept this long after they were last wanted, because bursts come in waves.'),
    fall_share: z
      .number()
      .gt(0)
      .max(1)
      .default(0.25)
      .describe('Share of the spare pods that is given up in one step, and at least one pod.'),
    fall_every_seconds: z.number().min(0).max(86_400).default(15).describe('Time between two such steps.'),
  })
  .refine(({ min, max }) => min <= max, { path: ['max'], message: 'must not be below `min`' })
export type SpareSettings = z.output<typeof spareSettingsSchema>
