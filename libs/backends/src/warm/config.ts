/** Settings of warm slots and cells: the `warm` section of cofferdam.config.yaml. */
import { DEFAULT_LIMITS, LANGUAGES, nameSchema } from '@cofferdam/contract'
import { z } from 'zod'

const moduleName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$/, 'expected a module name')

const poolsSchema = z.strictObject({
  /** False: every execution starts its own sandbox. */
  enabled: z.boolean().default(true),
  /** Idle slots of one kind at most; the size below it follows arrivals and warm-up time. */
  max_idle: z.int().min(1).max(256).default(8),
  /** Kinds (language × preload × limits) that are kept at once; the least recently asked one gives way. */
  max_kinds: z.int().min(1).max(1024).default(32),
  /** A slot that waited this long is replaced. */
  max_age_ms: z.int().min(1000).max(86_400_000).default(600_000),
  /** A kind that nobody asked for this long is given up, unless it is in `start`. */
  idle_ms: z.int().min(1000).max(86_400_000).default(300_000),
  /** Kinds with the default limits that always have a slot, from the worker's start. */
  start: z
    .array(z.strictObject({ language: z.enum(LANGUAGES), preload: nameSchema.optional() }))
    .max(32)
    .default([{ language: 'python' }]),
})

const cellsSchema = z.strictObject({
  /** Cells at once; the longest idle one gives way to a new one. */
  max: z.int().min(1).max(10_000).default(64),
  /** Cells of one tenant for reuse scope `tenant`: that many of its executions run at once in warm places. */
  max_per_tenant: z.int().min(1).max(1000).default(4),
  /** Runs after which a cell that keeps nothing is replaced, and a session of that scope that any worker attaches to. */
  max_runs: z.int().min(1).max(1_000_000).default(1000),
  /** Idle time after which a cell ends, when the session names none. */
  idle_ms: z.int().min(1000).max(3_600_000).default(300_000),
  /** A cell, or a session that any worker attaches to, ends at this age when it is idle, so that one interpreter state never lives for ever. */
  max_age_ms: z.int().min(1000).max(86_400_000).default(3_600_000),
})

export const warmConfigSchema = z.strictObject({
  pools: poolsSchema.prefault({}),
  cells: cellsSchema.prefault({}),
  /** Preload sets by name: Python modules that wait imported. Public code only, for every tenant sees the same ones. */
  preload: z.record(nameSchema, z.array(moduleName).min(1).max(64)).default({ data: ['numpy', 'pandas'] }),
})
export type WarmConfig = z.output<typeof warmConfigSchema>
export type PoolSettings = WarmConfig['pools']
export type CellSettings = WarmConfig['cells']

/** Limits of the slots that stand ready from the start. */
export const START_LIMITS = DEFAULT_LIMITS
