/** Settings of warm slots and cells: the `warm` section of cofferdam.config.yaml. */
import { DEFAULT_LIMITS, LANGUAGES, nameSchema } from '@cofferdam/contract'
import { z } from 'zod'

const moduleName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$/, 'expected a module name')

const poolsSchema = z.strictObject({
  enabled: z.boolean().default(true).describe('False: every execution starts its own sandbox.'),
  max_idle: z
    .int()
    .min(1)
    .max(256)
    .default(8)
    .describe(
      'Most idle slots of one kind (see `max_kinds`). Below that, the number follows the rate of arrivals ' +
        'and the warm-up time.',
    ),
  max_kinds: z
    .int()
    .min(1)
    .max(1024)
    .default(32)
    .describe(
      'Most kinds (language × preload × limits) with slots at once. The least recently used kind gives way.',
    ),
  max_age_ms: z
    .int()
    .min(1000)
    .max(86_400_000)
    .default(600_000)
    .describe('A slot that waited this long is replaced.'),
  idle_ms: z
    .int()
    .min(1000)
    .max(86_400_000)
    .default(300_000)
    .describe(
      'If no execution needs a kind for this long, its slots are destroyed, unless the kind is in `start`.',
    ),
  start: z
    .array(
      z.strictObject({
        language: z.enum(LANGUAGES).describe('Its language.'),
        preload: nameSchema.optional().describe('Its preload set. Default: none.'),
      }),
    )
    .max(32)
    .default([{ language: 'python' }])
    .describe('Kinds with the default limits that always have a slot, from the worker’s start.'),
})

const cellsSchema = z.strictObject({
  max: z
    .int()
    .min(1)
    .max(10_000)
    .default(64)
    .describe('Cells at once; the longest idle one gives way to a new one.'),
  max_per_tenant: z
    .int()
    .min(1)
    .max(1000)
    .default(4)
    .describe(
      'Most cells of one tenant for reuse scope `tenant`, and so the most of its executions that run in ' +
        'such cells at once.',
    ),
  max_runs: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(1000)
    .describe(
      'Runs after which a cell of scope `none`, which keeps nothing, is replaced. It also holds for ' +
        'sessions of scope `none` that any worker can attach to.',
    ),
  idle_ms: z
    .int()
    .min(1000)
    .max(3_600_000)
    .default(300_000)
    .describe('Idle time after which a cell ends, if its session sets no `idle_ms`.'),
  max_age_ms: z
    .int()
    .min(1000)
    .max(86_400_000)
    .default(3_600_000)
    .describe(
      'A cell, or a session that any worker attaches to, ends at this age when it is idle, so that one ' +
        'interpreter state never lives for ever.',
    ),
})

export const warmConfigSchema = z.strictObject({
  pools: poolsSchema.prefault({}).describe('Warm sandboxes that wait for a program.'),
  cells: cellsSchema.prefault({}).describe('Sandboxes that several executions use.'),
  preload: z
    .record(nameSchema, z.array(moduleName).min(1).max(64))
    .default({ data: ['numpy', 'pandas'] })
    .describe(
      'Preload sets by name: Python modules that a waiting interpreter has already imported. Use only ' +
        'public code, because all tenants share them.',
    ),
})
export type WarmConfig = z.output<typeof warmConfigSchema>
export type PoolSettings = WarmConfig['pools']
export type CellSettings = WarmConfig['cells']

/** Limits of the slots that are kept warm from the start. */
export const START_LIMITS = DEFAULT_LIMITS
