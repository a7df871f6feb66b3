/** What an attempt used, and the limits that held for it. */
import { z } from 'zod'
import type { Limits } from './limits.ts'

export const usageSchema = z.strictObject({
  cpu_ms: z.number().min(0).nullable().meta({
    description: 'User and system CPU time of the whole process tree, milliseconds. Null if not measured.',
    example: 41.5,
  }),
  peak_memory_bytes: z.int().min(0).nullable().meta({
    description: 'Highest memory use of the sandbox, bytes. Null if not measured.',
    example: 4_612_096,
  }),
  read_bytes: z.int().min(0).nullable().meta({
    description: 'Bytes that all processes read, from files and pipes alike. Null if not measured.',
    example: 1_048_576,
  }),
  write_bytes: z.int().min(0).nullable().meta({
    description: 'Bytes that all processes wrote, to files and pipes alike. Null if not measured.',
    example: 512,
  }),
  pids_peak: z.int().min(0).nullable().meta({
    description: 'Highest number of processes and threads at one time. Null if not measured.',
    example: 2,
  }),
  disk_bytes: z.int().min(0).nullable().meta({
    description: 'Bytes of the sandbox’s own disk in use at the end. Null if not measured.',
    example: 4096,
  }),
  wall_ms: z.number().min(0).meta({
    description: 'From the start of the program to its end, milliseconds.',
    example: 82.1,
  }),
})
/** A field is null if the backend cannot measure it. */
export type Usage = z.infer<typeof usageSchema>

/** Usage when only the wall time is known. */
export const unmeasuredUsage = (wallMs: number): Usage => ({
  cpu_ms: null,
  peak_memory_bytes: null,
  read_bytes: null,
  write_bytes: null,
  pids_peak: null,
  disk_bytes: null,
  wall_ms: wallMs,
})

/** Usage in a result. A charged attempt also shows its charge. */
export const resultUsageSchema = usageSchema.extend({
  charged_cpu_ms: z
    .int()
    .min(0)
    .optional()
    .meta({
      description:
        'CPU time that was charged, milliseconds: as measured, or run time × cpus if cpu_ms is null. ' +
        'Absent if not charged.',
      example: 42,
    }),
  cost: z.int().min(0).optional().meta({
    description: 'Cost, micro-units: millionths of the operator’s unit. Absent if not charged.',
    example: 120,
  }),
})

const most = z.int().min(0)

/** The limits of a program that ran. A worker may have reduced the requested ones. */
export const limitsInForceSchema = z.strictObject({
  soft_timeout_ms: most.meta({ description: 'Soft deadline, milliseconds.', example: 25_000 }),
  hard_timeout_ms: most.meta({ description: 'Hard deadline, milliseconds.', example: 30_000 }),
  cpu_time_ms: most.optional().meta({
    description: 'CPU time of all processes together, milliseconds. Absent if not limited.',
    example: 20_000,
  }),
  memory_mib: most.meta({ description: 'Memory of all processes together, MiB.', example: 256 }),
  cpus: z.number().min(0).meta({ description: 'Processors that could be used at once.', example: 1 }),
  pids: most.meta({ description: 'Processes and threads at one time.', example: 128 }),
  disk_mib: most.meta({ description: 'Files that the program could write, MiB.', example: 64 }),
  stdout_bytes: most.meta({ description: 'Most bytes of stdout in the result.', example: 262_144 }),
  stderr_bytes: most.meta({ description: 'Most bytes of stderr in the result.', example: 32_768 }),
})
export type LimitsInForce = z.infer<typeof limitsInForceSchema>

/**
 * The limits that a result shows. Artifact limits are not shown: the result lists the files that they left
 * out.
 */
export const limitsInForce = (limits: Limits): LimitsInForce => ({
  soft_timeout_ms: limits.soft_timeout_ms,
  hard_timeout_ms: limits.hard_timeout_ms,
  ...(limits.cpu_time_ms === undefined ? {} : { cpu_time_ms: limits.cpu_time_ms }),
  memory_mib: limits.memory_mib,
  cpus: limits.cpus,
  pids: limits.pids,
  disk_mib: limits.disk_mib,
  stdout_bytes: limits.stdout_bytes,
  stderr_bytes: limits.stderr_bytes,
})
