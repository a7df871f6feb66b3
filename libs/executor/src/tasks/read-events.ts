/** Reads the JSON lines that our own reporters write (reporters/): one per test, and a last one when all were told. */
import { z } from 'zod'
import type { ReportDraft } from './report-draft.ts'

const lineSchema = z.union([
  z.object({
    t: z.literal('test'),
    name: z.string(),
    status: z.enum(['passed', 'failed', 'errored', 'skipped']),
    file: z.string().nullable(),
    line: z.number().nullable(),
    ms: z.number().nullable(),
    message: z.string(),
  }),
  z.object({ t: z.literal('end') }),
])

/** A report that is none is not worth reading on: 8 MiB of broken lines took 6 s. */
const MAX_BROKEN = 100
/** The shortest true lines of 8 MiB. */
const MAX_TESTS = 100_000

/** True when the report came to its end; a line that is none of ours is passed over and makes it incomplete. */
export function readEvents(text: string, draft: ReportDraft): boolean {
  let ended = false
  let broken = 0
  for (const line of linesOf(text)) {
    const parsed = lineSchema.safeParse(jsonOrUndefined(line))
    if (!parsed.success) broken += 1
    else if (parsed.data.t === 'end') ended = true
    else draft.add(parsed.data)
    if (broken > MAX_BROKEN || draft.total === MAX_TESTS) break
  }
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

/** Undefined for what is no JSON. */
export function jsonOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
