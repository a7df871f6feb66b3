/**
 * Compares programs of any folder with a bare run of each:
 *
 *   node tests/parity/compare.ts --language python --backend process FOLDER_OR_FILE…
 *     [--limit N] [--offset N] [--concurrency 2] [--timeout 10s] [--show 20] [--report FILE.jsonl]
 *     [--trusted]
 *
 * Both sides run in sandboxes. Backend `none` is no sandbox, so it takes only programs that you trust
 * (`--trusted`). Exit code 1 when a program disagrees.
 */
import { createHash } from 'node:crypto'
import { appendFileSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { parseArgs } from 'node:util'
import { LANGUAGES, languageSchema, type Language } from '@cofferdam/contract'
import { compare, differences, firstDifference, type Comparison } from './agreement.ts'
import { createBareRunner, type BareRunner, type Ran, type TestProgram } from './bare-run.ts'
import { createFleetRunner, type BackendName, type FleetRan, type FleetRunner } from './fleet-run.ts'

const ENDINGS: Record<Language, RegExp> = {
  python: /\.py$/,
  javascript: /\.[cm]?js$/,
  typescript: /\.ts$/,
  bash: /\.(sh|bash)$/,
}
/** The limit of a request's source. */
const SOURCE_MAX = 1024 * 1024
/** A program that disagrees gets this many more runs, which may show that it is not deterministic. */
const SECOND_LOOKS = 2

interface Found {
  path: string
  category: string
}

export interface Compared {
  result: Comparison
  differs: string[]
  bare: Ran
  ours: FleetRan
}

/** Runs both sides once. If they differ, more runs decide whether the program is nondeterministic. */
export async function compareOnce(
  bareRunner: BareRunner,
  fleetRunner: FleetRunner,
  program: TestProgram,
  timeoutMs: number,
): Promise<Compared> {
  const bare = await bareRunner.run(program, timeoutMs)
  const ours = await fleetRunner.run(program, timeoutMs)
  const first = { ...compare(bare, ours), bare, ours }
  if (first.result !== 'disagree') return first
  for (let look = 0; look < SECOND_LOOKS; look++) {
    const again = await bareRunner.run(program, timeoutMs)
    if (differences(bare, again).length > 0) return { ...first, result: 'nondeterministic' }
    const oursAgain = await fleetRunner.run(program, timeoutMs)
    if (compare(again, oursAgain).result === 'agree') return { ...first, result: 'nondeterministic' }
  }
  return first
}

/** Files below the given paths, in an order that is the same on every run and mixes the folders. */
function programsBelow(places: readonly string[], language: Language): Found[] {
  const found: Found[] = []
  const take = (root: string, path: string): void => {
    if (statSync(path).isDirectory()) for (const name of readdirSync(path)) take(root, join(path, name))
    else if (ENDINGS[language].test(path))
      found.push({ path, category: relative(root, path).split(sep).slice(0, -1)[0] ?? '.' })
  }
  for (const place of places) take(place, place)
  const key = ({ path }: Found): string => createHash('sha1').update(path).digest('hex')
  return found
    .map((item) => [key(item), item] as const)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, item]) => item)
}

function sourceOf(path: string): string | null {
  const bytes = readFileSync(path)
  const text = bytes.toString('utf8')
  return bytes.length <= SOURCE_MAX && Buffer.from(text).equals(bytes) ? text : null
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      language: { type: 'string' },
      backend: { type: 'string', default: 'process' },
      image: { type: 'string', default: 'cofferdam/sandbox:latest' },
      limit: { type: 'string', default: '1000000' },
      offset: { type: 'string', default: '0' },
      concurrency: { type: 'string', default: '2' },
      timeout: { type: 'string', default: '10s' },
      show: { type: 'string', default: '20' },
      report: { type: 'string' },
      trusted: { type: 'boolean', default: false },
    },
  })
  const language = languageSchema.safeParse(values.language).data
  const backend = (['process', 'docker', 'microvm', 'none'] as const).find((name) => name === values.backend)
  if (language === undefined || backend === undefined || positionals.length === 0)
    throw new Error(
      `expected --language ${LANGUAGES.join('|')} --backend process|docker|microvm|none FOLDER_OR_FILE…`,
    )
  if (backend === 'none' && !values.trusted)
    throw new Error('none is no sandbox: say --trusted when you vouch for these programs')
  const offset = Number(values.offset)
  const programs = programsBelow(positionals, language).slice(offset, offset + Number(values.limit))
  const timeoutMs = Number(values.timeout.replace(/s$/, '')) * 1000
  // Virtual machines have the interpreters of the container image.
  const isImage = backend === 'docker' || backend === 'microvm'
  const place = isImage ? { kind: 'docker' as const, image: values.image } : { kind: 'bwrap' as const }
  using bare = createBareRunner(place)
  await using fleet = await createFleetRunner(backend satisfies BackendName)

  const tally = createTally()
  let shown = 0
  const queue = programs.values()
  const work = async (): Promise<void> => {
    for (const { path, category } of queue) {
      const source = sourceOf(path)
      if (source === null) {
        tally.add(category, 'skipped')
        continue
      }
      const compared = await compareOnce(bare, fleet, { language, source }, timeoutMs)
      tally.add(category, compared.result, compared.bare)
      const line = {
        path,
        result: compared.result,
        differs: compared.differs,
        ending: compared.ours.outcome.ending,
      }
      if (values.report !== undefined) appendFileSync(values.report, `${JSON.stringify(line)}\n`)
      if (!isOurs(compared.result) || shown >= Number(values.show)) continue
      shown++
      console.log(
        `${path}: ${compared.differs.join(', ')}\n    ${firstDifference(compared.bare, compared.ours)}`,
      )
    }
  }
  await Promise.all(Array.from({ length: Number(values.concurrency) }, work))
  tally.print()
  if (tally.disagreeing > 0) process.exitCode = 1
}

const isOurs = (result: Comparison | 'skipped'): boolean => result === 'disagree' || result === 'broken'

function createTally() {
  const rows = new Map<string, Map<string, number>>()
  const count = (category: string, name: string): void => {
    const row = rows.get(category) ?? new Map<string, number>()
    row.set(name, (row.get(name) ?? 0) + 1)
    rows.set(category, row)
  }
  let disagreeing = 0
  return {
    get disagreeing() {
      return disagreeing
    },
    add(category: string, result: Comparison | 'skipped', bare?: Ran) {
      if (isOurs(result)) disagreeing++
      for (const name of [category, 'all']) {
        count(name, result)
        if (result === 'agree' && bare !== undefined) count(name, bare.exitCode === 0 ? 'exit 0' : 'failing')
      }
    },
    print() {
      console.table(Object.fromEntries([...rows].map(([name, row]) => [name, Object.fromEntries(row)])))
    },
  }
}

if (import.meta.main) await main()
