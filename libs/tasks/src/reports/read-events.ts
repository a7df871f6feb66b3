/**
 * Reads the JSON lines of our reporters (src/reporters): one for each test, and one at the end. The reporter
 * of pytest also writes a line when a test starts, because a test can end the whole run.
 */
import { z } from 'zod'
import type { ReportDraft, TestCase } from './report-draft.ts'

const place = { name: z.string(), file: z.string().nullable(), line: z.number().nullable() }
const lineSchema = z.union([
  z.object({ t: z.literal('start'), ...place }),
  z.object({
    // `part` is a further failure of a test that already has a line, such as another subtest.
    t: z.enum(['test', 'part']),
    ...place,
    status: z.enum(['passed', 'failed', 'errored', 'skipped']),
    ms: z.number().nullable(),
    message: z.string(),
  }),
  z.object({ t: z.literal('end') }),
])

/** Reading stops after this many malformed lines, because parsing 8 MiB of them took 6 s. */
const MAX_BROKEN = 100
/** 8 MiB can hold about this many of the shortest lines of type `test`. */
const MAX_LINES = 100_000

/** True when the report is complete. Malformed lines are skipped and make it incomplete. */
export function readEvents(text: string, draft: ReportDraft): boolean {
  let ended = false
  let broken = 0
  let count = 0
  const running = new Map<string, Pick<TestCase, 'name' | 'file' | 'line'>>()
  for (const line of linesOf(text)) {
    count += 1
    const parsed = lineSchema.safeParse(jsonOrUndefined(line))
    // Only an `end` in the last line counts, because a command may start its runner again after it.
    ended = parsed.data?.t === 'end'
    if (!parsed.success) broken += 1
    else if (parsed.data.t === 'start') running.set(parsed.data.name, parsed.data)
    else if (parsed.data.t === 'part') draft.addPart(parsed.data)
    else if (parsed.data.t === 'test') {
      running.delete(parsed.data.name)
      draft.add(parsed.data)
    }
    if (broken > MAX_BROKEN || count === MAX_LINES) break
  }
  for (const { name, file, line } of running.values())
    draft.add({ name, file, line, status: 'failed', message: 'The test run ended in it.' })
  return ended && broken === 0
}

/** Lines that are not empty. */
export function* linesOf(text: string): Generator<string> {
  for (let from = 0; from < text.length;) {
    const to = text.indexOf('\n', from)
    const end = to === -1 ? text.length : to
    if (end > from) yield text.slice(from, end)
    from = end + 1
  }
}

/** Undefined for a text that is not JSON. */
export function jsonOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
