/**
 * The language of the `fake` backend: one JSON object per line with one key, carried out in order. Other
 * lines do nothing, so any real program "runs" and exits 0 silently. A JSON object that is not a step ends
 * the program with exit code 2 and a message on stderr, like a syntax error.
 */
import { z } from 'zod'

const text = z.string().max(1_048_576)
const ms = z.int().min(0).max(86_400_000)

const stepSchema = z.union([
  /** The text and a newline to stdout. */
  z.strictObject({ print: text }),
  /** The text alone. */
  z.strictObject({ stdout: text }),
  z.strictObject({ stderr: text }),
  z.strictObject({ stdout_base64: z.base64() }),
  /** `times` times the text to stdout, for floods. */
  z.strictObject({ repeat: z.strictObject({ text: text.min(1), times: z.int().min(0).max(1_073_741_824) }) }),
  z.strictObject({ print_env: z.string() }),
  /** The whole environment as one line of JSON. */
  z.strictObject({ print_all_env: z.literal(true) }),
  /** stdin to stdout. */
  z.strictObject({ echo_stdin: z.literal(true) }),
  /** A file to stdout; exit 1 if it is missing. */
  z.strictObject({ cat: z.string() }),
  z.strictObject({ write_file: z.strictObject({ path: z.string(), content: text }) }),
  z.strictObject({ value: z.json() }),
  /** An interrupt ends the program by SIGINT unless it ignores interrupts. */
  z.strictObject({ sleep_ms: ms }),
  /** Continues with the next step when interrupted, like a handler. */
  z.strictObject({ spin_until_interrupt: z.literal(true) }),
  z.strictObject({ ignore_interrupts: z.literal(true) }),
  /** Ends with the code. */
  z.strictObject({ exit: z.int().min(0).max(255) }),
  /** Ends by the signal. */
  z.strictObject({ crash: z.string().regex(/^SIG[A-Z0-9]+$/) }),
  /** The text to stderr, then exit 1, like an uncaught exception. */
  z.strictObject({ throw: text }),
  /** Ends by SIGKILL with one OOM kill as evidence. */
  z.strictObject({ oom: z.literal(true) }),
  /** This step and the next two set fields of the exit, and continue. */
  z.strictObject({ pids_limit: z.literal(true) }),
  z.strictObject({ disk_limit: z.literal(true) }),
  z.strictObject({
    usage: z.strictObject({
      cpu_ms: z.number().min(0).optional(),
      peak_memory_bytes: z.int().min(0).optional(),
      read_bytes: z.int().min(0).optional(),
      write_bytes: z.int().min(0).optional(),
    }),
  }),
  /** The sandbox dies under the program. */
  z.strictObject({ die: z.literal(true) }),
])
export type FakeStep = z.output<typeof stepSchema>

/** Parses a program. Returns an error text for an object that is not a step. */
export function parseSteps(source: string): FakeStep[] | { error: string } {
  const steps: FakeStep[] = []
  for (const [index, line] of source.split('\n').entries()) {
    if (!line.trimStart().startsWith('{')) continue
    const object = asObject(line)
    if (object === undefined) continue
    const parsed = stepSchema.safeParse(object)
    if (!parsed.success) return { error: `fake: line ${index + 1} is no step: ${line.slice(0, 120)}` }
    steps.push(parsed.data)
  }
  return steps
}

/** The inverse of `parseSteps`, for tests. */
export const fakeSource = (...steps: FakeStep[]): string => steps.map((s) => JSON.stringify(s)).join('\n')

function asObject(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}
