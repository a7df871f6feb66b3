/** Settings of the `hostile` backend: its tricks, as data. Harmless if empty. */
import { z } from 'zod'

const ms = z.int().min(0).max(600_000)

/** The tricks of one sandbox. A part without a trick behaves well. */
const hostileTricksSchema = z.strictObject({
  open: z
    .enum(['hangs', 'fails', 'throws_foreign', 'deaf'])
    .optional()
    .describe(
      '`hangs`: never ready, until aborted. `fails`: throws `sandbox_open_failed`. `throws_foreign`: ' +
        'throws a foreign error. `deaf`: takes `open_late_ms` and ignores the abort.',
    ),
  open_late_ms: ms.optional().describe('Milliseconds added to `open`.'),
  run: z
    .enum(['dies', 'violates_protocol', 'hangs', 'throws_foreign'])
    .optional()
    .describe(
      '`dies`: the channel ends after the first output (or at once), `sandbox_lost`. `violates_protocol`: ' +
        'the same with `protocol_violation`. `hangs`: never ends and ignores interrupts; only abort or ' +
        'dispose end it. `throws_foreign`: rejects with a foreign error.',
    ),
  exit: z
    .enum(['lies_about_bytes', 'lies_about_exit', 'talks_after_exit'])
    .optional()
    .describe(
      '`lies_about_bytes`: impossible byte counts. `lies_about_exit`: exit code and signal at once, ' +
        'negative usage, a value that is not JSON. `talks_after_exit`: more output, and a second end, after ' +
        '`run` resolved.',
    ),
  flood_bytes: z
    .int()
    .min(0)
    .max(1_073_741_824)
    .optional()
    .describe("Bytes of stdout before the program's own, far beyond `maxOutputBytes`, without backpressure."),
  crumbles_output: z
    .boolean()
    .optional()
    .describe('Splits the output into single bytes, which also splits UTF-8 sequences.'),
  exit_late_ms: ms.optional().describe('Milliseconds added to the end of `run`.'),
  deaf_to_interrupt: z.boolean().optional().describe('Interrupts do nothing.'),
  files: z
    .enum(['fails', 'hangs'])
    .optional()
    .describe('`fails`: write, read, list and remove throw `sandbox_lost`. `hangs`: until dispose.'),
  files_lie: z
    .boolean()
    .optional()
    .describe('`read` returns more than requested, `list` names paths outside of the work directory.'),
  dispose_slow_ms: ms.optional().describe('Milliseconds that `dispose` takes; it finishes.'),
  dispose_throws: z.boolean().optional().describe('`dispose` rejects after it destroyed the sandbox.'),
})
export type HostileTricks = z.output<typeof hostileTricksSchema>

export const hostileConfigSchema = z.strictObject({
  tricks: z
    .array(hostileTricksSchema)
    .max(1000)
    .default([])
    .describe(
      'The nth entry has the tricks of the nth sandbox. After the last entry, the list starts again. `[]`: ' +
        'no tricks.',
    ),
  probe: z
    .enum(['fails', 'throws', 'hangs'])
    .optional()
    .describe('`fails`: probe says no. `throws`: it rejects. `hangs`: until aborted.'),
})
export type HostileConfig = z.output<typeof hostileConfigSchema>
