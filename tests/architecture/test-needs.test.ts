/**
 * A test names with `needs` the parts of the machine that it uses (such as docker), and is skipped where they
 * are missing. A test that uses a part without naming it fails on such a machine. A test that is skipped in
 * another way reports no reason.
 */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { PartName } from '@cofferdam/embedded/needs'
import { expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

interface Use {
  /** Code that uses a part. `NAMED` in it stands for one of the names in `parts`. */
  pattern: string
  /** For each name, parts of the machine. The test must name at least one of them with `needs`. */
  parts: Readonly<Record<string, readonly PartName[]>>
  /** Applies only if the file also matches this, because names of backends are plain data elsewhere. */
  beside?: RegExp
}

const BACKENDS = {
  docker: ['docker'],
  gvisor: ['gvisor'],
  // Each of these parts allows a variant of the process backend.
  process: ['process', 'process-namespaces', 'bwrap', 'self-jail', 'landlock-jail'],
} satisfies Record<string, readonly PartName[]>
const PROGRAMS = {
  bwrap: ['bwrap'],
  docker: ['docker', 'gvisor'],
  ip: ['hosts'],
  kubectl: ['kubectl'],
  mount: ['mounts'],
  openssl: ['openssl'],
  setpriv: ['setpriv'],
  unshare: ['user-namespaces', 'mounts'],
} satisfies Record<string, readonly PartName[]>
/** Calls that create sandboxes of the named backends. */
const OPENS =
  /\b(?:startFleet|createBackends|create(?:Docker|Process)Backend)\(|\b(?:startCommand|start)\(\['up'/

const USES: readonly Use[] = [
  {
    // A worker may offer more backends than the test uses. So the test may name a part of any backend.
    pattern: String.raw`COFFERDAM_BACKENDS: '(?:[\w,]*,)?(?:NAMED)\b`,
    parts: { 'docker|gvisor|process': Object.values(BACKENDS).flat() },
    beside: OPENS,
  },
  { pattern: String.raw`\bbackend: 'NAMED'`, parts: BACKENDS, beside: OPENS },
  { pattern: String.raw`(?:\.each|\bof )\(?\[[^\]]*'NAMED'`, parts: BACKENDS, beside: OPENS },
  { pattern: String.raw`\bcreateBackends\(\{[^)]*?\bNAMED: `, parts: BACKENDS },
  { pattern: String.raw`\bcreateNAMEDBackend\(`, parts: { Docker: ['docker', 'gvisor'] } },
  {
    pattern: String.raw`(?:\bjail: |\bkind: |\bonRung\()'NAMED'`,
    parts: { bwrap: ['bwrap'], self: ['self-jail', 'landlock-jail'] },
  },
  {
    pattern: String.raw`\b(?:spawn|exec\w*|run)(?:Sync)?\)?\(\s*'NAMED'|\bwithin: \[\s*'NAMED'`,
    parts: PROGRAMS,
  },
  {
    // A double without pools or replicas starts no jail, so it does not need bubblewrap.
    pattern: String.raw`\bNAMED\((?!\{ (?:pools: \[\]|replicas: 0))`,
    parts: {
      startJail: ['bwrap'],
      startAgentcoreDouble: ['bwrap'],
      startAzureDouble: ['bwrap'],
      startE2bDouble: ['bwrap'],
      startKubernetesDouble: ['bwrap'],
      doubleTarget: ['bwrap'],
      startUp: ['process'],
      openUiScene: ['chromium'],
      createNetHosts: ['hosts'],
      moveToSmallDisk: ['mounts'],
      startRedisCluster: ['redis-server'],
      startWatchedRedis: ['redis-server'],
      startRedisProcess: ['redis-server'],
    },
  },
  {
    pattern: String.raw`\b(?:start|startCommand)\(\['NAMED'`,
    parts: { up: ['process', 'process-namespaces'] },
  },
]

/**
 * The parts that a file names with `needs`. Contains `any` if a name is computed, as in a table of backends.
 */
function namedIn(text: string): Set<string> {
  const named = new Set(/\bonTargets\(/.test(text) ? ['any'] : [])
  if (/\bdescribeAgentcore\(/.test(text)) named.add('bwrap')
  for (const [, call, list] of text.matchAll(
    /\bneeds(?:Backend)?\(([^()]*)\)|(?:\bneeds: |\bexerciseStarted\([^[]*)\[([^\]]*)\]/g,
  )) {
    const words = call ?? list ?? ''
    for (const [, name = ''] of words.matchAll(/'([\w-]+)'/g)) named.add(name)
    if (/(?<!')\b[a-z]\w*(?!\w|')/.test(words.replaceAll(/'[^']*'/g, ''))) named.add('any')
  }
  return named
}

/** The same text with blanks for comments. */
const codeOf = (text: string): string =>
  text.replaceAll(/^\s*\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, (comment) => comment.replaceAll(/[^\n]/g, ' '))

/** Problems of a test file or of a file that tests use. */
function problemsOf(file: string, text: string): string[] {
  const code = codeOf(text)
  const at = (index: number): string => `${file}:${code.slice(0, index).split('\n').length}`
  const skips = [
    ...code.matchAll(/\bCOFFERDAM_REQUIRE\b/g),
    ...code.matchAll(/\.(?:skipIf|runIf)\((?!process\.platform|isLinux\))/g),
    ...code.matchAll(/(?:\bctx\.|\bcontext\.|(?<![\w.]))skip\((?!.*=>)/g),
  ].map((found) => `${at(found.index)}: skips by ${found[0]}; say needs(…)`)
  if (!file.endsWith('.test.ts')) return skips
  const named = namedIn(code)
  const unsaid = USES.flatMap(({ pattern, parts, beside }) =>
    beside?.test(code) === false
      ? []
      : Object.entries(parts).flatMap(([name, covering]) => {
          const found = new RegExp(pattern.replaceAll('NAMED', name)).exec(code)
          if (found === null || named.has('any') || covering.some((part) => named.has(part))) return []
          return [`${at(found.index)}: uses ${name} without needs('${covering.join("') or needs('")}')`]
        }),
  )
  return [...unsaid, ...skips]
}

it.each([
  ["needs('docker').it('x', () => run({ backend: 'docker' }))\nawait startFleet()", 0],
  ["const { it } = needs('root', 'bwrap')\nstartE2bDouble()", 0],
  ["for (const b of ['docker', 'process']) needsBackend(b).describe('x', () => startFleet())", 0],
  [
    "needs(b === 'process' ? 'process-namespaces' : b).it('x')\nstartFleet({ COFFERDAM_BACKENDS: 'docker' })",
    0,
  ],
  ["exerciseBackend(make, { needs: ['docker'] })\nconst make = () => createDockerBackend({})", 0],
  ["expect(rows).toMatchObject({ backend: 'docker' })", 0],
  ['await startAzureDouble({ pools: [] })', 0],
  ["// spawn('openssl') as in the manual", 0],
  ["it.runIf(process.platform === 'linux')('x', () => {})", 0],
  ['expect(process.getuid?.() === 0).toBe(true)', 0],
  ["await startFleet()\nawait run({ backend: 'docker' })", 1],
  [
    "needs('docker').it('x')\nawait fleet.startWorker({ COFFERDAM_BACKENDS: 'docker,process' })\nstartFleet()",
    0,
  ],
  ["describe.each(['docker', 'gvisor'])('%s', () => startFleet())", 2],
  [
    "needs('root').it('x')\nawait fleet.startWorker({ COFFERDAM_BACKENDS: 'docker,process' })\nstartFleet()",
    1,
  ],
  ["needs('docker').it('x', () => run({ backend: 'gvisor' }))\nstartFleet()", 1],
  ['await createBackends({ process: {}, none: {} })', 1],
  ['const backend = createDockerBackend({})', 1],
  ["createBackends({ process: { jail: 'bwrap' } })", 2],
  ["onRung('bwrap', () => {})", 1],
  ["await promisify(execFile)('openssl', ['version'])", 1],
  ["spawnSync(\n  'unshare', ['--user'])", 1],
  ["lab.start('none', { within: ['setpriv', '--clear-groups'] })", 1],
  ["needs('user-namespaces').it('x', () => startKubernetesDouble())", 1],
  ['beforeAll(() => startUp())', 1],
  ["if (process.env['COFFERDAM_REQUIRE'] === 'all') throw new Error()", 1],
  ["describe.skipIf(!isHere)('x', () => {})", 1],
  ["it.runIf(process.getuid?.() === 0)('x', () => {})", 1],
  ["it('x', (ctx) => ctx.skip('no docker'))", 1],
  ["it('x', ({ skip }) => {\n  skip(!isHere, 'no docker')\n})", 1],
])('judges %j', (text, problems) => {
  expect(problemsOf('x.test.ts', text)).toHaveLength(problems)
})

/** Files that contain such code only as text, or that name backends but never open one. */
const OTHERWISE = [
  'tests/architecture/test-needs.test.ts',
  'scripts/stray-text.test.ts',
  'libs/backends/src/capabilities-table.test.ts',
  'libs/sandbox/src/docker/docker.test.ts',
  'libs/backends/azure/test/tokens.test.ts',
]

it('every test names what it needs of the machine', () => {
  const files = globSync('{apps,libs,tests,scripts,bench,infra}/**/*.ts', {
    cwd: ROOT,
    exclude: (name) => name.endsWith('node_modules'),
  }).filter(
    (file) =>
      /\.test\.ts$|\/(?:test|conformance|doubles?)\/|^tests\//.test(file) && !OTHERWISE.includes(file),
  )
  expect(files.length).toBeGreaterThan(100)
  expect(files.flatMap((file) => problemsOf(file, readFileSync(ROOT + file, 'utf8')))).toEqual([])
})
