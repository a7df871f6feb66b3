/** What an attempt used. */
import { z } from 'zod'

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
