/** Names of telemetry: what the source says is in the catalog, and what the catalog says is in the source. */
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

  it('uses no name of a span, attribute or metric that the catalog does not have', () => {
    // Labels of containers look alike; backends name nothing of telemetry.
    const own = files.filter((file) => !/^libs\/(backends|sandbox)\//.test(file))
    const strange = own.flatMap((file) =>
      [...readFileSync(ROOT + file, 'utf8').matchAll(/'((?:cofferdam|messaging)\.[a-z_]+(?:\.[a-z_]+)*)'/g)]
        .map((match) => match[1] ?? '')
        // A tracer's name says which part of ours made a span; file names are none of ours.
        .filter(
          (name) => !KNOWN.has(name) && !/^cofferdam\.(worker|executor|config|config\.yaml)$/.test(name),
        )
        .map((name) => `${file}: ${name}`),
    )
    expect(strange).toEqual([])
  })

  it('of libs that may not import telemetry says the same words as telemetry', () => {
    expect(Object.values(SPANS)).toEqual(expect.arrayContaining(Object.values(SPAN)))
    expect(Object.values(ATTRIBUTES)).toEqual(expect.arrayContaining(Object.values(ATTRIBUTE)))
    expect(Object.keys(EVENT_FACTS)).toEqual(expect.arrayContaining(Object.values(EVENT)))
  })

  it('logs no message that the catalog does not have, at no other level', () => {
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

  it('gives no process a logger or telemetry without a redactor', () => {
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
    // A message may reach its call by a variable: then it stands in the source all the same.
    const sources = files.map((file) => readFileSync(ROOT + file, 'utf8')).join('\n')
    const gone = Object.keys(LOG_FACTS).filter(
      (message) => !messages.has(message) && !sources.includes(`'${message}'`),
    )
    expect(gone).toEqual([])
  })
})

it('reads log calls as they stand in source: nested, on many lines, with holes', () => {
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
