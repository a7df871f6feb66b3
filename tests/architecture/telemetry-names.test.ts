/** Checks that names of telemetry in the source are in the catalog, and the other way round. */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import {
  ATTRIBUTE_FACTS,
  ATTRIBUTES,
  EVENT_FACTS,
  LOG_FACTS,
  METRIC_FACTS,
  SPAN_FACTS,
  SPANS,
} from '@cofferdam/telemetry/api'
import { describe, expect, it } from 'vitest'
import { ATTRIBUTE, EVENT, SPAN } from '../../libs/executor/src/spans.ts'
import { callsOf, findLogCalls } from './log-calls.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const page = readFileSync(`${ROOT}docs/reference/telemetry.md`, 'utf8')

const KNOWN = new Set<string>([
  ...Object.keys(SPAN_FACTS),
  ...Object.keys(EVENT_FACTS),
  ...Object.keys(ATTRIBUTE_FACTS),
  ...Object.keys(METRIC_FACTS),
])

/** First cells of the rows of the table below a heading. */
const firstCells = (heading: string): string[] =>
  [...(page.split(`\n${heading}\n`)[1]?.split(/\n##+ /)[0] ?? '').matchAll(/^\| `([^`]+)` \|/gm)].map(
    (match) => match[1] ?? '',
  )

describe('docs/reference/telemetry.md', () => {
  it.each([
    ['## Traces', Object.keys(SPAN_FACTS)],
    ['### Events', Object.keys(EVENT_FACTS)],
    ['## Metrics', Object.keys(METRIC_FACTS)],
    ['## Attributes', Object.keys(ATTRIBUTE_FACTS)],
    ['## Log records', Object.keys(LOG_FACTS)],
  ])('lists below "%s" everything and nothing else', (heading, names) => {
    expect(names.length).toBeGreaterThan(3)
    expect(firstCells(heading)).toEqual(names)
  })
})

describe('the source', () => {
  const files = globSync('{apps,libs,libs/backends}/*/src/**/*.ts', { cwd: ROOT }).filter(
    (file) => !file.endsWith('.test.ts') && !file.startsWith('libs/telemetry/'),
  )

  it('uses only names of spans, attributes and metrics that the catalog has', () => {
    // Backends use no telemetry names, but their container labels look similar. So backends are left out.
    const own = files.filter((file) => !/^libs\/(backends|sandbox)\//.test(file))
    const strange = own.flatMap((file) =>
      [...readFileSync(ROOT + file, 'utf8').matchAll(/'((?:cofferdam|messaging)\.[a-z_]+(?:\.[a-z_]+)*)'/g)]
        .map((match) => match[1] ?? '')
        // Neither names of tracers (the part that made a span) nor file names are in the catalog.
        .filter(
          (name) => !KNOWN.has(name) && !/^cofferdam\.(worker|executor|config|config\.yaml)$/.test(name),
        )
        .map((name) => `${file}: ${name}`),
    )
    expect(strange).toEqual([])
  })

  it('uses the same words in libs that may not import telemetry', () => {
    expect(Object.values(SPANS)).toEqual(expect.arrayContaining(Object.values(SPAN)))
    expect(Object.values(ATTRIBUTES)).toEqual(expect.arrayContaining(Object.values(ATTRIBUTE)))
    expect(Object.keys(EVENT_FACTS)).toEqual(expect.arrayContaining(Object.values(EVENT)))
  })

  it('logs only messages that the catalog has, at the same level', () => {
    const calls = findLogCalls()
    expect(calls.length).toBeGreaterThan(30)
    const strange = calls.filter(({ level, message }) => {
      const known = LOG_FACTS[message]
      return known === undefined || (level !== 'any' && !known.level.includes(level))
    })
    expect(
      strange,
      'add these to libs/telemetry/src/log-records.ts, then `npm run check -- --write`',
    ).toEqual([])
  })

  it('gives every logger and telemetry a redactor', () => {
    const makers = files
      .filter((file) => file.startsWith('apps/'))
      .flatMap((file) =>
        [
          ...readFileSync(ROOT + file, 'utf8').matchAll(
            /\b(?:createLogger|startTelemetry)\((\{[^}]*\}|telemetryOptions\()/g,
          ),
        ].map(([call]) => ({ file, call })),
      )
    expect(makers.length).toBeGreaterThan(3)
    expect(makers.filter(({ call }) => !/redact|telemetryOptions\(/.test(call))).toEqual([])
  })

  it('logs every message that the catalog has', () => {
    const messages = new Set(findLogCalls().map(({ message }) => message))
    // If a message reaches its log call in a variable, search the sources for the message instead.
    const sources = files.map((file) => readFileSync(ROOT + file, 'utf8')).join('\n')
    const gone = Object.keys(LOG_FACTS).filter(
      (message) => !messages.has(message) && !sources.includes(`'${message}'`),
    )
    expect(gone).toEqual([])
  })
})

it('reads log calls in any form: nested, on many lines, with placeholders', () => {
  const text = `
    logger.warn({ err: error, of: f(1, { a: ')' }) }, 'one, two')
    deps.log?.error(
      { x },
      \`\${what} is "down"\`,
    )
    request.log[level]({}, "it's")
    log.debug(facts, message)`
  expect(callsOf('f.ts', text).map(({ level, message }) => [level, message])).toEqual(
    [
      ['warn', 'one, two'],
      ['error', '… is "down"'],
      ['level', "it's"],
    ].map(([level, message]) => [level === 'level' ? 'any' : level, message]),
  )
})
