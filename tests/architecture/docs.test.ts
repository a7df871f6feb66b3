/** Checks that pages which list tables of the code match the code. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { KNOWN_VARIABLES } from '@cofferdam/config'
import { ENDINGS, ERROR_CLASSES, ERRORS, EXIT_STATUSES } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { API_FIELDS } from '../../apps/api/src/config.ts'
import { CLI_FIELDS } from '../../apps/cli/src/config.ts'
import { DISPATCHER_FIELDS } from '../../apps/dispatcher/src/config.ts'
import { fileSchema, WORKER_FIELDS } from '../../apps/worker/src/config.ts'
import { GENERATED_FILES } from '../../scripts/generated-files.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const read = (path: string): string =>
  readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8')

/** `a/{b,c}.ts` stands for two paths, which must both exist. */
function spelledOut(path: string): string[] {
  const [, before = '', choices, after = ''] = /^(.*)\{(.*)\}(.*)$/.exec(path) ?? []
  return choices === undefined ? [path] : choices.split(',').map((choice) => `${before}${choice}${after}`)
}

/** First cells of the rows of the table below a heading. */
function firstCells(page: string, heading: string): string[] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  return [...section.matchAll(/^\| `([^`]+)` \|/gm)].map((match) => match[1] ?? '')
}

describe('docs/errors.md', () => {
  const page = read('docs/errors.md')

  it('lists every error code of the code and no others', () => {
    expect(firstCells(page, 'Platform errors')).toEqual(Object.keys(ERRORS))
  })

  it('lists every ending and no others', () => {
    expect(firstCells(page, 'Endings')).toEqual([...ENDINGS])
  })

  it('names every exit status and error class', () => {
    for (const word of [...EXIT_STATUSES, ...ERROR_CLASSES]) expect(page).toContain(`\`${word}\``)
  })

  it('gives the HTTP status that the code has for each error', () => {
    expect(page).toContain('| `queue_full` | 429 |')
    expect(page).toContain('| `isolation_unavailable` | 503 |')
  })
})

describe('docs/configuration.md', () => {
  const page = read('docs/configuration.md')

  it.each([
    ['API', API_FIELDS],
    ['Worker', WORKER_FIELDS],
    ['Dispatcher', DISPATCHER_FIELDS],
    ['Command', CLI_FIELDS],
  ])('lists every variable of the %s and no other', (heading, fields) => {
    expect(firstCells(page, heading)).toEqual(Object.values(fields).map((field) => field.variable))
  })

  it('lists only variables that every process knows, so that all of them can share an environment', () => {
    const all = [API_FIELDS, WORKER_FIELDS, DISPATCHER_FIELDS, CLI_FIELDS]
      .flatMap((fields) => Object.values(fields).map(({ variable }) => variable))
      .filter((variable) => variable.startsWith('COFFERDAM_'))
    expect(KNOWN_VARIABLES).toEqual(expect.arrayContaining([...new Set(all)]))
  })

  it('has a section for every part of the file', () => {
    const headings = [...page.matchAll(/^### `([a-z]+)/gm)].map(([, heading]) => heading)
    const parts = Object.keys(fileSchema.shape).filter((part) => part !== 'backends')
    expect(parts.filter((part) => !headings.includes(part))).toEqual([])
  })

  it('says which variables are required', () => {
    expect(page).toContain('| `REDIS_URL` | required |')
  })

  it('describes every setting', () => {
    expect(page.split('\n').filter((line) => line.startsWith('| `') && line.endsWith('|  |'))).toEqual([])
  })
})

describe('SPECIFICATION.md', () => {
  it('names only existing tests', () => {
    const named = [
      ...read('SPECIFICATION.md').matchAll(/`((?:apps|libs|tests|infra|bench)\/[^`]+)`/g),
    ].flatMap(([, path = '']) => spelledOut(path))
    expect(named.length).toBeGreaterThan(80)
    expect(named.filter((path) => globSync(path, { cwd: ROOT }).length === 0)).toEqual([])
  })
})

describe('docs/glossary.md', () => {
  it('names only existing files', () => {
    const paths = [...read('docs/glossary.md').matchAll(/`((?:libs|apps)\/[\w./-]+)`/g)].map(
      (match) => match[1] ?? '',
    )
    expect(paths.length).toBeGreaterThan(5)
    for (const path of paths)
      expect(existsSync(fileURLToPath(new URL(`../../${path}`, import.meta.url))), path).toBe(true)
  })
})

describe('generated files', () => {
  it.each(Object.keys(GENERATED_FILES))('%s is up to date with the code', async (path) => {
    expect(read(path)).toBe(await GENERATED_FILES[path]?.())
  })
})
