/**
 * MCP's own conformance suites judge /mcp as a whole. No failure is expected: mcp-scenarios.ts names what
 * must pass, and what is left out and why.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { startKeyedProxy, type KeyedProxy } from './keyed-proxy.ts'
import { listenForMcp } from './mcp-client.ts'
import { buildWithFixtures } from './mcp-fixtures.ts'
import { LEFT_OUT, ON_REAL, WITH_FIXTURES } from './mcp-scenarios.ts'
import { openOracles, type Oracles } from './oracle-programs.ts'
import { openScene, type Scene } from './scene.ts'

interface Suite {
  version: string
  program: string
  /** The arguments of each run. A run judges many scenarios, because one process for each would cost more. */
  runs: readonly (readonly string[])[]
}

const NEWEST: Suite = {
  version: '0.2.0-alpha.12',
  program: '@modelcontextprotocol/conformance/dist/index.js',
  // A scenario may apply to several revisions. The first run uses revision 2026-07-28 for it, the second an
  // older one.
  runs: [
    ['--requirements', '2026-07-28'],
    ['--suite', 'all'],
  ],
}
const OF_2025: Suite = {
  version: '0.1.16',
  program: 'conformance-of-2025/dist/index.js',
  runs: [['--suite', 'all']],
}

const RUN_MS = 900_000

let oracles: Oracles
let scene: Scene
let real: KeyedProxy
let fixtures: KeyedProxy

beforeAll(async () => {
  oracles = await openOracles()
  scene = await openScene()
  real = await startKeyedProxy(await listenForMcp(scene.app), scene.acme)
  const other = await scene.another({}, {}, buildWithFixtures)
  fixtures = await startKeyedProxy(await listenForMcp(other), scene.acme)
}, 600_000)
afterAll(async () => {
  await Promise.all([real[Symbol.asyncDispose](), fixtures[Symbol.asyncDispose]()])
  await scene[Symbol.asyncDispose]()
  await oracles[Symbol.asyncDispose]()
})

const checksSchema = z.array(
  z.looseObject({ id: z.string(), status: z.string(), errorMessage: z.string().optional() }),
)
type Checks = z.output<typeof checksSchema>

/**
 * Runs the suite once. Returns the checks of each scenario by its name, which is in the name of its folder.
 */
async function judge(
  { program }: Suite,
  target: KeyedProxy,
  args: readonly string[],
): Promise<Map<string, Checks>> {
  const folder = await mkdtemp(path.join(oracles.home, 'checks-'))
  const { stderr } = await oracles.run(program, ['server', '--url', target.url, ...args, '-o', folder], {
    timeoutMs: RUN_MS,
  })
  const checks = new Map<string, Checks>()
  for (const name of readdirSync(folder)) {
    const scenario = /^server-(.+)-\d{4}-\d{2}-\d{2}T/.exec(name)?.[1] ?? name
    checks.set(
      scenario,
      checksSchema.parse(JSON.parse(readFileSync(path.join(folder, name, 'checks.json'), 'utf8'))),
    )
  }
  if (checks.size === 0) throw new Error(`the suite judged nothing: ${stderr}`)
  return checks
}

/** The checks of one scenario, in the revision of a run with `args`. */
async function judgeAlone(
  suite: Suite,
  target: KeyedProxy,
  scenario: string,
  args: readonly string[],
): Promise<Checks> {
  const revision = args.includes('--requirements') ? ['--spec-version', '2026-07-28', '--force'] : []
  const checks = (await judge(suite, target, ['--scenario', scenario, ...revision])).get(scenario)
  if (checks === undefined) throw new Error(`the suite did not judge ${scenario}`)
  return checks
}

/** Every check that the suite neither passed nor skipped. Checks that only inform are left out too. */
const problemsOf = (checks: Checks): string[] =>
  checks
    .filter(({ status }) => !['SUCCESS', 'SKIPPED', 'INFO'].includes(status))
    .map(({ id, status, errorMessage = '' }) => `${status} ${id}: ${errorMessage}`)

/**
 * The passed checks of the scenario itself. The suite adds `wire-schema-valid`, which any well-formed answer
 * passes.
 */
const passedOf = (checks: Checks): string[] =>
  checks.filter(({ id, status }) => status === 'SUCCESS' && id !== 'wire-schema-valid').map(({ id }) => id)

describe.each([NEWEST, OF_2025])('conformance suite $version', (suite) => {
  /** The names that the suite lists as server scenarios. */
  const names = async (): Promise<string[]> => {
    const { stdout } = await oracles.run(suite.program, ['list'])
    const [, block = ''] = /Server scenarios[^\n]*\n((?: +- .*\n)+)/.exec(stdout) ?? []
    return [...block.matchAll(/^ +- (\S+)/gm)].map(([, name = '']) => name)
  }

  it('has no scenario that is neither passed nor left out with a reason', async () => {
    const known = [...ON_REAL, ...WITH_FIXTURES, ...Object.keys(LEFT_OUT)]
    const found = await names()
    expect(found.length).toBeGreaterThan(30)
    expect(found.filter((name) => !known.includes(name))).toEqual([])
    expect(new Set(known).size).toBe(known.length)
    if (suite === NEWEST) expect(known.toSorted()).toEqual(found.toSorted())
  })

  it.each([
    ['the real server', ON_REAL, () => real],
    ['our transport with fixtures', WITH_FIXTURES, () => fixtures],
  ])(
    'passes every scenario that applies to %s',
    async (_what, scenarios, target) => {
      const found = await names()
      const expected = scenarios.filter((name) => found.includes(name))
      const passed = new Set<string>()
      for (const args of suite.runs)
        for (const [scenario, checks] of await judge(suite, target(), args)) {
          if (!expected.includes(scenario)) continue
          const problems = problemsOf(checks)
          // The suite allows each request 10 s, and no option changes that. A busy machine may be slower, so
          // a scenario that failed is judged again alone.
          const alone = problems.length === 0 ? checks : await judgeAlone(suite, target(), scenario, args)
          expect.soft(problemsOf(alone), `${scenario} with ${args.join(' ')}`).toEqual([])
          if (passedOf(checks).length > 0) passed.add(scenario)
        }
      expect([...passed].toSorted()).toEqual(expected.toSorted())
    },
    2 * RUN_MS,
  )
})
