/** Why an execution waits, was refused, ran where it ran, and ended as it did. */
import { z } from 'zod'
import { EXECUTION_STATUSES } from './execution-state.ts'
import { executionIdSchema } from './ids.ts'
import { timeSchema } from './name.ts'

/** What a fact explains. */
export const WHY_QUESTIONS = ['waits', 'refused', 'backend', 'ending'] as const

export const whyFactSchema = z.strictObject({
  question: z.enum(WHY_QUESTIONS).meta({
    description:
      'waits: why it has not begun. refused: why nothing ran. backend: why it ran there. ending: how it ' +
      'ended.',
  }),
  code: z.string().meta({
    description: 'Stable word for the fact. docs/operations/why.md lists them.',
    example: 'tenant_concurrency',
  }),
  text: z.string().meta({
    description: 'The fact in a sentence.',
    example: 'Its tenant already runs 10 executions, which is its concurrency limit.',
  }),
  figures: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).meta({
    description: 'The figures of the sentence, by name. Empty if there are none.',
    example: { running: 10, limit: 10 },
  }),
  since: timeSchema.optional().meta({
    description: 'Since when it could have started. Absent if it does not wait in the queue.',
  }),
  until: timeSchema.optional().meta({
    description:
      'When the reason goes away by itself, or for no_worker, when the execution is refused. Absent if ' +
      'that is unknown.',
  }),
  action: z.string().optional().meta({
    description: 'What can be done about it. Absent if there is nothing to do.',
    example: 'Wait, or raise the tenant’s concurrency.',
  }),
})
export type WhyFact = z.infer<typeof whyFactSchema>

export const executionWhySchema = z.strictObject({
  execution_id: executionIdSchema.meta({ description: 'The execution.' }),
  status: z.enum(EXECUTION_STATUSES).meta({ description: 'Its status, as in its state.' }),
  facts: z.array(whyFactSchema).meta({
    description: 'The most decisive one first. Empty while the program runs.',
  }),
})
export type ExecutionWhy = z.infer<typeof executionWhySchema>
