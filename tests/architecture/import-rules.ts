/**
 * The allowed imports between packages, as one function per rule over the tree. Each returns a sentence per
 * violation, which names the file, what it does and why that is wrong.
 */
import { builtinModules } from 'node:module'
import { resolveRelative, type Import, type SourceFile, type Tree, type Workspace } from './import-tree.ts'

/**
 * Our packages that each lib may import. A lib without a row is reported, because somebody must decide what
 * it may import.
 */
const LIB_ARROWS: Record<string, readonly string[]> = {
  contract: [],
  config: ['contract'],
  client: ['contract', 'queue'],
  // Adapters for agent SDKs. The package depends on none of these SDKs.
  tools: ['client'],
  queue: ['contract'],
  // admission and sessions call Redis in the same way as the queue (@cofferdam/queue/redis-calls).
  admission: ['contract', 'queue'],
  sessions: ['contract', 'queue'],
  // Its caller passes the backends as a map, so it never imports one.
  executor: ['contract', 'egress', 'tasks'],
  // Turns test runs and installs into commands and reads their reports. The executor passes it access to
  // packages as an interface.
  tasks: ['contract'],
  egress: ['contract'],
  // Can be used alone, so it imports nothing of queues, stores or vendors.
  sandbox: ['contract'],
  // Must not import queue, admission or store.
  'backends/remote': ['contract', 'sandbox'],
  'backends/agentcore': ['contract', 'sandbox', 'backends/remote'],
  'backends/azure': ['contract', 'sandbox', 'backends/remote'],
  'backends/e2b': ['contract', 'sandbox', 'backends/remote'],
  'backends/kubernetes': ['contract', 'sandbox', 'backends/remote'],
  'backends/microvm': ['contract', 'sandbox'],
  backends: [
    'contract',
    'sandbox',
    'backends/agentcore',
    'backends/azure',
    'backends/e2b',
    'backends/kubernetes',
    'backends/microvm',
  ],
  store: ['contract'],
  telemetry: ['contract'],
  // Enqueues executions, reads due routines, and calls out only to addresses that egress allows.
  routines: ['contract', 'egress', 'queue', 'store'],
  embedded: ['contract'],
  // The sandbox of one customer: HTTP paths, settings, and the switch that turns it on or off. Apps mount it.
  polyclaw: ['backends', 'contract', 'queue', 'store', 'workspace-sync'],
  // Rules, archives and merges are pure. The store comes as an interface of the contract.
  'workspace-sync': ['contract'],
}

/** Apps import libs. Only the command imports apps, because it starts them in one process. */
const APP_ARROWS: Record<string, readonly string[]> = { cli: ['api', 'dispatcher', 'worker'] }

/** Bundled into files for the browser, so it needs none of its dependencies at run time. */
const BUNDLED = 'apps/dashboard'

/** Slow or large packages: a worker that runs Docker jobs must not load a cloud SDK. */
const HEAVY = [
  'dockerode',
  'docker-modem',
  '@aws-sdk/',
  'bedrock-agentcore',
  '@azure/',
  '@kubernetes/',
  'e2b',
  '@e2b/',
]

/** File names that say nothing about the content. */
const EMPTY_NAMES =
  /(^|-)(utils?|helpers?|common|misc|types|managers?|services?)(\.test|\.conformance\.test)?\.tsx?$/

const BUILTINS = new Set(builtinModules)

/** Splits `@scope/name/sub` into package `@scope/name` and sub-path `./sub`. */
function splitPackage(specifier: string): { name: string; subpath: string } {
  const parts = specifier.split('/')
  const length = specifier.startsWith('@') ? 2 : 1
  const rest = parts.slice(length).join('/')
  return { name: parts.slice(0, length).join('/'), subpath: rest === '' ? '.' : `./${rest}` }
}

const isRelative = (specifier: string): boolean => specifier.startsWith('.') || specifier.startsWith('/')

/** Every import of every file, with its workspace. */
function* eachImport(tree: Tree): Generator<{ file: SourceFile; found: Import; own: Workspace }> {
  const byDir = new Map(tree.workspaces.map((workspace) => [workspace.dir, workspace]))
  for (const file of tree.files) {
    const own = byDir.get(file.workspace)
    if (own !== undefined) for (const found of file.imports) yield { file, found, own }
  }
}

function workspaceOf(tree: Tree, specifier: string): Workspace | undefined {
  const { name } = splitPackage(specifier)
  return tree.workspaces.find((workspace) => workspace.name === name)
}

/** Our packages import each other only as the tables allow. */
export function wrongArrows(tree: Tree): string[] {
  const problems = tree.workspaces
    .filter(({ dir }) => dir.startsWith('libs/') && LIB_ARROWS[dir.slice(5)] === undefined)
    .map(({ dir }) => `${dir}: has no row in LIB_ARROWS; decide what it may import`)
  for (const { file, found, own } of eachImport(tree)) {
    if (isRelative(found.specifier)) {
      const target = resolveRelative(file.path, found.specifier)
      // The doubles of cloud services are not in a package, so tests import them by path.
      const isDouble = file.isTest && target.startsWith('infra/doubles/')
      if (!target.startsWith(own.dir + '/') && !isDouble)
        problems.push(`${file.path}: reaches out of its workspace by path (${found.specifier})`)
      continue
    }
    const target = workspaceOf(tree, found.specifier)
    if (target === undefined || allowsArrow(own, target, file.isTest)) continue
    problems.push(`${file.path}: ${own.dir} must not import ${target.dir} (${found.specifier})`)
  }
  return problems
}

function allowsArrow(from: Workspace, to: Workspace, isTest: boolean): boolean {
  const [group, name] = [to.dir.slice(0, 4), to.dir.slice(5)]
  if (from.dir === to.dir) return isTest
  if (group === 'apps') return (APP_ARROWS[from.dir.slice(5)] ?? []).includes(name)
  // A lib's tests may use every other lib: real servers from embedded, the doubles from backends.
  return from.dir.startsWith('apps/') || isTest || (LIB_ARROWS[from.dir.slice(5)] ?? []).includes(name)
}

/** Packages are imported only through their `exports`. */
export function deepImports(tree: Tree): string[] {
  const problems: string[] = []
  for (const { file, found } of eachImport(tree)) {
    const target = isRelative(found.specifier) ? undefined : workspaceOf(tree, found.specifier)
    if (target !== undefined && !target.exports.includes(splitPackage(found.specifier).subpath))
      problems.push(`${file.path}: ${found.specifier} is not among the exports of ${target.name}`)
  }
  return problems
}

/** Every import is declared in the package.json of the same workspace. */
export function undeclaredDependencies(tree: Tree): string[] {
  const problems: string[] = []
  for (const { file, found, own } of eachImport(tree)) {
    const { specifier } = found
    if (isRelative(specifier) || specifier.startsWith('node:')) continue
    const { name } = splitPackage(specifier)
    if (BUILTINS.has(name)) {
      problems.push(`${file.path}: write node:${specifier}, not ${specifier}`)
      continue
    }
    const ours = workspaceOf(tree, specifier)
    const atRunTime = [...own.dependencies, own.name]
    // Tests and types need nothing at run time. Our own packages are linked for every test.
    const inTests = [...atRunTime, ...own.devDependencies, ...tree.rootDevDependencies]
    const needsNothing = file.isTest || found.kind === 'type' || own.dir === BUNDLED
    const declared = needsNothing ? inTests : atRunTime
    if (declared.includes(name) || (ours !== undefined && file.isTest)) continue
    problems.push(`${file.path}: imports ${name}, which ${own.dir}/package.json does not declare`)
  }
  return problems
}

/** The pages import only types from our packages, because server code does not belong in a browser. */
export function serverCodeInPages(tree: Tree): string[] {
  const problems: string[] = []
  for (const { file, found, own } of eachImport(tree)) {
    const isOurs = !isRelative(found.specifier) && workspaceOf(tree, found.specifier) !== undefined
    if (own.dir === BUNDLED && isOurs && found.kind !== 'type')
      problems.push(`${file.path}: import only types of ${found.specifier}`)
  }
  return problems
}

/** The package.json of `contract` has no dependency but zod. */
export function heavyContract(tree: Tree): string[] {
  const contract = tree.workspaces.find(({ dir }) => dir === 'libs/contract')
  return (contract?.dependencies ?? [])
    .filter((name) => name !== 'zod')
    .map((name) => `libs/contract/package.json: depends on ${name}; contract depends on zod alone`)
}

/**
 * Heavy SDKs are loaded only by `await import()`, in libs/sandbox (dockerode), libs/store (the client of
 * buckets) and the vendors' packages.
 */
export function heavyImports(tree: Tree): string[] {
  const problems: string[] = []
  for (const { file, found } of eachImport(tree)) {
    const { name } = splitPackage(found.specifier)
    const heavy = HEAVY.some((entry) => (entry.endsWith('/') ? name.startsWith(entry) : name === entry))
    if (!heavy || found.kind === 'type' || file.isTest) continue
    const isBucket = file.workspace === 'libs/store' && name === '@aws-sdk/client-s3'
    if (file.workspace !== 'libs/sandbox' && !isBucket && !file.workspace.startsWith('libs/backends/'))
      problems.push(`${file.path}: ${name} belongs inside a package of libs/backends`)
    else if (found.kind === 'value') problems.push(`${file.path}: load ${name} by await import()`)
  }
  return problems
}

/** Only apps/<app>/src/config.ts reads the environment. */
export function environmentReaders(tree: Tree): string[] {
  return tree.files
    .filter(
      (file) => file.readsEnvironment && !file.isTest && !/^apps\/[^/]+\/src\/config\.ts$/.test(file.path),
    )
    .map(
      (file) =>
        `${file.path}: reads process.env; take the value as an argument (apps/*/src/config.ts reads it)`,
    )
}

/** File names say what the file is about. */
export function emptyNames(tree: Tree): string[] {
  return tree.files
    .filter((file) => EMPTY_NAMES.test(file.path.split('/').at(-1) ?? '') || /[A-Z_]/.test(file.path))
    .map((file) => `${file.path}: name it in kebab-case for what it decides`)
}

/** No cycles between packages, and none between files. */
export function cycles(tree: Tree): string[] {
  const packages = new Map<string, Set<string>>()
  const files = new Map<string, Set<string>>()
  for (const { file, found, own } of eachImport(tree)) {
    if (file.isTest) continue
    if (isRelative(found.specifier)) {
      // Imports of types count, because files that need each other's types have to be read together.
      // `import()` does not count, because it loads the file later.
      if (found.kind !== 'dynamic') edge(files, file.path, resolveRelative(file.path, found.specifier))
    } else {
      const target = workspaceOf(tree, found.specifier)
      if (target !== undefined && target.dir !== own.dir) edge(packages, own.dir, target.dir)
    }
  }
  return [...findCycles(packages), ...findCycles(files)].map((ring) => `cycle: ${ring.join(' → ')}`)
}

function edge(graph: Map<string, Set<string>>, from: string, to: string): void {
  const targets = graph.get(from) ?? new Set()
  graph.set(from, targets.add(to))
}

/** Finds one cycle per back edge of a depth-first walk. */
function findCycles(graph: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const done = new Set<string>()
  const rings: string[][] = []
  const walk = (node: string, path: string[]): void => {
    const at = path.indexOf(node)
    if (at >= 0) rings.push([...path.slice(at), node])
    if (at >= 0 || done.has(node)) return
    for (const next of graph.get(node) ?? []) walk(next, [...path, node])
    done.add(node)
  }
  for (const node of graph.keys()) walk(node, [])
  return rings
}

export function importProblems(tree: Tree): string[] {
  const rules = [
    wrongArrows,
    deepImports,
    undeclaredDependencies,
    serverCodeInPages,
    heavyContract,
    heavyImports,
    environmentReaders,
    emptyNames,
    cycles,
  ]
  return rules.flatMap((rule) => rule(tree)).toSorted()
}
