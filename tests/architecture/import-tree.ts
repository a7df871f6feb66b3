/**
 * Reads every TypeScript file below apps/ and libs/ into a tree of workspaces, files and imports. Files are
 * parsed, so an import inside a string or comment does not count.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { parseAst } from 'vitest/node'

export interface Import {
  specifier: string
  /** `type` vanishes when types are stripped, and `dynamic` is `import()`. */
  kind: 'value' | 'type' | 'dynamic'
}

export interface SourceFile {
  /** Relative to the root, with forward slashes. */
  path: string
  /** Directory of its workspace, e.g. `libs/queue`. */
  workspace: string
  isTest: boolean
  imports: Import[]
  readsEnvironment: boolean
}

export interface Workspace {
  dir: string
  name: string
  /** Importable paths below the package: `.` and its sub-paths. */
  exports: string[]
  dependencies: string[]
  devDependencies: string[]
}

export interface Tree {
  workspaces: Workspace[]
  files: SourceFile[]
  /** Development dependencies of the root. Every test and every type import may use them. */
  rootDevDependencies: string[]
}

interface Manifest {
  name: string
  exports?: Record<string, unknown>
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
  devDependencies?: Record<string, string>
}

/** Reads the repository at `root`. Throws when a file does not parse. */
export function readTree(root: string): Tree {
  const workspaces = ['apps', 'libs', 'libs/backends']
    .flatMap((group) => subfolders(join(root, group)).map((name) => `${group}/${name}`))
    .filter((dir) => existsSync(join(root, dir, 'package.json')))
    .map((dir) => readWorkspace(root, dir))
  const files = workspaces.flatMap(({ dir }) =>
    sourcePaths(join(root, dir)).map((path) =>
      readSource(relative(root, path).split(sep).join('/'), dir, readFileSync(path, 'utf8')),
    ),
  )
  const rootManifest = readManifest(join(root, 'package.json'))
  return { workspaces, files, rootDevDependencies: Object.keys(rootManifest.devDependencies ?? {}) }
}

/** Parses one file. `path` decides whether it counts as a test. */
export function readSource(path: string, workspace: string, code: string): SourceFile {
  const imports: Import[] = []
  let reads = 0
  let hasOwnProcess = false
  visit(parseAst(code, { lang: path.endsWith('.tsx') ? 'tsx' : 'ts' }), (node) => {
    const found = importOf(node)
    if (found !== null) imports.push(found)
    if (isEnvironment(node)) reads++
    if (handsEnvironmentOn(node)) reads--
    if (declaresProcess(node)) hasOwnProcess = true
  })
  const isTest = /\.test\.ts$|(^|\/)(test|conformance)\/|\/(testing|test-servers|needs)\.ts$/.test(path)
  return { path, workspace, isTest, imports, readsEnvironment: reads > 0 && !hasOwnProcess }
}

interface Node {
  type: string
  [key: string]: unknown
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'

function visit(node: unknown, see: (node: Node) => void): void {
  if (Array.isArray(node)) for (const item of node) visit(item, see)
  else if (isNode(node)) {
    see(node)
    for (const value of Object.values(node)) if (typeof value === 'object') visit(value, see)
  }
}

const textOf = (node: unknown): string | null =>
  isNode(node) && node.type === 'Literal' && typeof node['value'] === 'string' ? node['value'] : null

function importOf(node: Node): Import | null {
  const specifier = textOf(node['source'])
  if (specifier === null) return null
  switch (node.type) {
    case 'ImportDeclaration':
      return { specifier, kind: node['importKind'] === 'type' ? 'type' : 'value' }
    case 'ExportNamedDeclaration':
    case 'ExportAllDeclaration':
      return { specifier, kind: node['exportKind'] === 'type' ? 'type' : 'value' }
    case 'TSImportType':
      return { specifier, kind: 'type' }
    case 'ImportExpression':
      return { specifier, kind: 'dynamic' }
    default:
      return null
  }
}

const named = (value: unknown, name: string): boolean =>
  isNode(value) && (value['name'] === name || value['value'] === name)

/** `process.env`, `const { env } = process`, `import { env } from 'node:process'`. */
function isEnvironment(node: Node): boolean {
  if (node.type === 'MemberExpression')
    return named(node['object'], 'process') && named(node['property'], 'env')
  if (node.type === 'VariableDeclarator' && named(node['init'], 'process')) return true
  return node.type === 'ImportDeclaration' && /^(node:)?process$/.test(textOf(node['source']) ?? '')
}

/** True for `loadConfig(process.env)`: a main.ts passes the environment to the config.ts that reads it. */
function handsEnvironmentOn(node: Node): boolean {
  const first: unknown = Array.isArray(node['arguments']) ? node['arguments'][0] : undefined
  return (
    node.type === 'CallExpression' &&
    named(node['callee'], 'loadConfig') &&
    isNode(first) &&
    isEnvironment(first)
  )
}

/** A parameter or variable called `process` is not Node's. */
function declaresProcess(node: Node): boolean {
  if (Array.isArray(node['params']) && node['params'].some((param) => named(param, 'process'))) return true
  return node.type === 'VariableDeclarator' && named(node['id'], 'process')
}

function readWorkspace(root: string, dir: string): Workspace {
  const manifest = readManifest(join(root, dir, 'package.json'))
  return {
    dir,
    name: manifest.name,
    exports: Object.keys(manifest.exports ?? {}),
    dependencies: Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies }),
    devDependencies: Object.keys(manifest.devDependencies ?? {}),
  }
}

const readManifest = (path: string): Manifest => JSON.parse(readFileSync(path, 'utf8')) as Manifest

const subfolders = (dir: string): string[] =>
  existsSync(dir)
    ? readdirSync(dir, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
    : []

function sourcePaths(dir: string): string[] {
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const path = join(dir, entry.name)
    // A folder with a package.json is a workspace of its own.
    if (entry.isDirectory())
      return entry.name === 'node_modules' || existsSync(join(path, 'package.json')) ? [] : sourcePaths(path)
    return /\.([mc]?ts|tsx)$/.test(entry.name) ? [path] : []
  })
}

/** The path that a relative specifier in `from` points to, relative to the root. */
export const resolveRelative = (from: string, specifier: string): string =>
  resolve('/', dirname(from), specifier).slice(1)
