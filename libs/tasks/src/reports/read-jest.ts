/** Reads the JSON report of jest, which vitest also writes. */
import { z } from 'zod'
import { jsonOrUndefined } from './read-events.ts'
import { plainText, type ReportDraft } from './report-draft.ts'

/** Messages can have megabytes. The stack is at the start. */
const MAX_MESSAGE = 65_536

const testSchema = z.object({
  fullName: z.string().catch(''),
  title: z.string().catch(''),
  status: z.string(),
  duration: z.number().nullish().catch(null),
  failureMessages: z.array(z.string()).nullish().catch(null),
  location: z.object({ line: z.number() }).nullish().catch(null),
})
const reportSchema = z.object({
  testResults: z.array(
    z.object({
      name: z.string().catch(''),
      status: z.string().catch(''),
      message: z.string().nullish().catch(null),
      assertionResults: z.array(testSchema).catch([]),
    }),
  ),
})

/** True when the text is a report of jest with at most MAX_ITEMS items. */
export function readJest(text: string, draft: ReportDraft): boolean {
  const json = jsonOrUndefined(text)
  if (isCrowded(json)) return false
  const parsed = reportSchema.safeParse(json)
  if (!parsed.success) return false
  for (const file of parsed.data.testResults) {
    for (const test of file.assertionResults) {
      draft.add({
        name: test.fullName === '' ? test.title : test.fullName,
        status: STATUS[test.status] ?? 'skipped',
        ms: test.duration,
        detail: () => {
          const message = plainText((test.failureMessages ?? []).join('\n').slice(0, MAX_MESSAGE))
          return { file: file.name, line: lineIn(message, file.name) ?? test.location?.line, message }
        },
      })
    }
    // If a file cannot be loaded, or one of its hooks fails, none of its tests is marked as failed. The file
    // itself is listed then.
    const told = file.assertionResults.some(({ status }) => status === 'failed')
    if (file.status === 'failed' && !told) {
      const message = plainText((file.message ?? '').slice(0, MAX_MESSAGE))
      draft.add({
        name: file.name,
        status: 'errored',
        file: file.name,
        line: lineIn(message, file.name),
        message,
      })
    }
  }
  return true
}

/** The most files and tests in a report. Without this bound, checking 8 MiB of empty objects took 6 s. */
const MAX_ITEMS = 100_000
const shapeSchema = z.object({ testResults: z.array(z.unknown()) })

function isCrowded(json: unknown): boolean {
  const shape = shapeSchema.safeParse(json)
  if (!shape.success) return true
  let items = shape.data.testResults.length
  for (const file of items > MAX_ITEMS ? [] : shape.data.testResults)
    if (typeof file === 'object' && file !== null && 'assertionResults' in file)
      items += Array.isArray(file.assertionResults) ? file.assertionResults.length : 0
  return items > MAX_ITEMS
}

const STATUS: Readonly<Record<string, 'passed' | 'failed'>> = { passed: 'passed', failed: 'failed' }

/** The line number in the first stack frame whose file has the same name as `file`. */
function lineIn(stack: string, file: string): number | null {
  const name = file.slice(file.lastIndexOf('/') + 1)
  for (const line of stack.split('\n')) {
    const at = name === '' ? -1 : line.lastIndexOf(`${name}:`)
    const found = at === -1 ? null : /^:(\d{1,7})/.exec(line.slice(at + name.length))
    if (found !== null) return Number(found[1])
  }
  return null
}
