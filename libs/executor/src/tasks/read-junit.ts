/** Reads pytest's JUnit report (junit_family xunit1, which names files and lines). No document type, no entities of its own. */
import { XMLParser } from 'fast-xml-parser'
import { z } from 'zod'
import type { ReportDraft, TestCase } from './report-draft.ts'

const attribute = z.string().optional().catch(undefined)
const detailSchema = z
  .union([
    z.string().transform((text) => ({ '#text': text, '@message': undefined })),
    z.object({ '#text': attribute, '@message': attribute }),
  ])
  .optional()
  .catch({ '#text': undefined, '@message': undefined })
const caseSchema = z.object({
  '@name': attribute,
  '@classname': attribute,
  '@file': attribute,
  '@line': attribute,
  '@time': attribute,
  failure: z.array(detailSchema).optional(),
  error: z.array(detailSchema).optional(),
  skipped: z.array(z.unknown()).optional(),
})
const suiteSchema = z.object({ '@time': attribute, testcase: z.array(caseSchema).catch([]).default([]) })
const reportSchema = z.object({ testsuites: z.object({ testsuite: z.array(suiteSchema) }) })

const LISTS = new Set(['testsuite', 'testcase', 'failure', 'error', 'skipped'])

/**
 * The suites' own duration, milliseconds; null when it was no such report. Of a run that was `stopped` the last test has no
 * verdict when it has nothing bad: pytest writes the one that it was at like one that passed.
 */
export function readJunit(text: string, draft: ReportDraft, stopped: boolean): { durationMs: number } | null {
  if (/<!(DOCTYPE|ENTITY)/i.test(text) || isCrowded(text)) return null
  const report = reportSchema.safeParse(parsed(text))
  if (!report.success) return null
  let durationMs = 0
  for (const suite of report.data.testsuites.testsuite) {
    durationMs += secondsOf(suite['@time'])
    const cases = suite.testcase.map((one) => caseOf(one))
    if (stopped && cases.at(-1)?.status === 'passed') cases.pop()
    for (const one of cases) draft.add(one)
  }
  return { durationMs }
}

/** A test has one tag and five attributes. Beyond 50,000 tests the worker would stand still for seconds. */
const MAX_TAGS = 150_000
const MAX_ATTRIBUTES = 300_000

function isCrowded(text: string): boolean {
  return occurs(text, '<', MAX_TAGS) || occurs(text, '=', MAX_ATTRIBUTES + MAX_TAGS)
}

function occurs(text: string, char: string, most: number): boolean {
  let count = 0
  for (let at = text.indexOf(char); at !== -1 && count <= most; at = text.indexOf(char, at + 1)) count += 1
  return count > most
}

function parsed(text: string): unknown {
  const parser = new XMLParser({
    ignoreAttributes: false,
    attributeNamePrefix: '@',
    parseAttributeValue: false,
    parseTagValue: false,
    trimValues: false,
    processEntities: false,
    // testsuites, testsuite, testcase, failure: nothing true is deeper.
    maxNestedTags: 16,
    isArray: (name) => LISTS.has(name),
  })
  try {
    return parser.parse(text, true)
  } catch {
    return undefined
  }
}

function caseOf(one: z.infer<typeof caseSchema>): TestCase {
  const className = unescaped(one['@classname'] ?? '')
  const name = [className, unescaped(one['@name'] ?? '')].filter((part) => part !== '').join('::')
  const bad = one.failure?.[0] ?? one.error?.[0]
  const ms = secondsOf(one['@time'])
  if (bad === undefined) return { name, status: one.skipped === undefined ? 'passed' : 'skipped', ms }
  return {
    name,
    status: one.failure === undefined ? 'errored' : 'failed',
    ms,
    detail: () => {
      const trace = unescaped(bad['#text'] ?? '')
      const message = unescaped(bad['@message'] ?? '')
      const file = one['@file'] === undefined ? undefined : unescaped(one['@file'])
      return {
        ...placeOf(trace, file, one['@line']),
        // A long trace is cut at its beginning: its end says what went wrong.
        message: trace === '' ? message : `${message}\n${trace.slice(-6000)}`,
      }
    },
  }
}

/** The last line of the trace that lies in the test's own file; else where a syntax error is; else where the test stands. */
function placeOf(
  detail: string,
  file: string | undefined,
  line: string | undefined,
): { file: string | null; line: number | null } {
  let found: number | null = null
  for (const text of detail.split('\n')) {
    const frame = /^(\S[^:]*\.py):(\d{1,7}): /.exec(text) ?? /^E\s+File "(.+)", line (\d{1,7})/.exec(text)
    if (
      frame !== null &&
      file !== undefined &&
      (frame[1] === file || frame[1]?.endsWith(`/${file}`) === true)
    )
      found = Number(frame[2])
  }
  // pytest counts a test's line from 0.
  const stands = line === undefined || !/^\d{1,7}$/.test(line) ? null : Number(line) + 1
  return { file: file ?? null, line: found ?? stands }
}

const NAMED: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }

/** The five entities of XML itself and character numbers; nothing else is an entity here. */
function unescaped(text: string): string {
  // pytest writes what no XML can hold as `#x1B`, first of all the beginning of a colour.
  return text
    .replaceAll('#x1B[', '\u001b[')
    .replaceAll(
      /&(?:(lt|gt|amp|quot|apos)|#(\d{1,7})|#x([0-9a-fA-F]{1,6}));/g,
      (whole, name, decimal, hex) => {
        if (typeof name === 'string') return NAMED[name] ?? whole
        const code = typeof decimal === 'string' ? Number(decimal) : Number.parseInt(String(hex), 16)
        return code <= 0x10ffff ? String.fromCodePoint(code) : whole
      },
    )
}

function secondsOf(text: string | undefined): number {
  const seconds = Number(text ?? 0)
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : 0
}
