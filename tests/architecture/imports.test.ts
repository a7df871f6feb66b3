/** Checks the imports of this repository, and that each rule reports a made-up tree that breaks it. */
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { importProblems } from './import-rules.ts'
import { readSource, readTree, type Tree, type Workspace } from './import-tree.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

describe('the repository', () => {
  const tree = readTree(root)

  it('is read completely', () => {
    expect(tree.workspaces.map(({ dir }) => dir)).toContain('libs/contract')
    expect(tree.files.map(({ path }) => path)).toContain('libs/contract/src/backend.ts')
    expect(tree.files.length).toBeGreaterThan(50)
  })

  it('has only allowed imports', () => {
    expect(importProblems(tree)).toEqual([])
  })
})

const workspace = (dir: string, dependencies: string[] = [], exports = ['.']): Workspace => ({
  dir,
  name: `@cofferdam/${dir.slice(5)}`,
  exports,
  dependencies,
  devDependencies: ['@types/thing'],
})

const ALL = ['contract', 'queue', 'executor', 'backends', 'sandbox', 'store'].map(
  (name) => `@cofferdam/${name}`,
)

/** Returns a tree of the usual workspaces (everything declared) with the given files. */
function treeOf(files: Record<string, string>, more: Workspace[] = []): Tree {
  const usual = ['libs/contract', 'libs/queue', 'libs/executor', 'libs/store', 'apps/api', 'apps/cli']
  const workspaces = [
    ...usual.map((dir) =>
      workspace(dir, dir === 'libs/contract' ? ['zod'] : [...ALL, '@cofferdam/api', '@cofferdam/cli']),
    ),
    workspace('libs/backends', ALL),
    workspace('libs/sandbox', [...ALL, 'dockerode'], ['./docker', './guest']),
    ...more,
  ]
  return {
    workspaces,
    files: Object.entries(files).map(([path, code]) =>
      readSource(path, path.split('/').slice(0, 2).join('/'), code),
    ),
    rootDevDependencies: ['vitest'],
  }
}

const problemsOf = (files: Record<string, string>): string[] => importProblems(treeOf(files))

describe('the import rules', () => {
  it('accept the allowed imports', () => {
    expect(
      problemsOf({
        'libs/contract/src/index.ts': `import { z } from 'zod'\nexport * from './ids.ts'`,
        'libs/contract/src/ids.ts': `import { randomBytes } from 'node:crypto'`,
        'libs/sandbox/src/docker/index.ts': `import type Docker from 'dockerode'\nawait import('dockerode')`,
        'libs/queue/test/put.test.ts': `import { it } from 'vitest'\nimport '@cofferdam/store'\nprocess.env['REDIS_URL']`,
        'apps/api/src/config.ts': `export const url = process.env['REDIS_URL']`,
        'apps/api/src/main.ts': `import { loadConfig } from './config.ts'\nloadConfig(process.env)`,
        'apps/cli/src/main.ts': `import '@cofferdam/api'`,
      }),
    ).toEqual([])
  })

  it.each([
    [
      'executor imports a backend',
      'libs/executor/src/run.ts',
      `import '@cofferdam/backends'`,
      'must not import libs/backends',
    ],
    [
      'a backend imports the queue',
      'libs/sandbox/src/docker/index.ts',
      `import type { X } from '@cofferdam/queue'`,
      'must not import libs/queue',
    ],
    [
      'a backend imports the store',
      'libs/backends/src/index.ts',
      `await import('@cofferdam/store')`,
      'must not import libs/store',
    ],
    [
      'a lib imports an app',
      'libs/queue/src/put.ts',
      `export * from '@cofferdam/api'`,
      'must not import apps/api',
    ],
    [
      "a lib's test imports an app",
      'libs/queue/test/put.test.ts',
      `import '@cofferdam/api'`,
      'must not import apps/api',
    ],
    [
      'an app imports another app',
      'apps/api/src/server.ts',
      `import '@cofferdam/cli'`,
      'must not import apps/cli',
    ],
    [
      'something but backends imports the sandbox package',
      'libs/executor/src/run.ts',
      `type F = import('@cofferdam/sandbox/guest').Frame`,
      'must not import libs/sandbox',
    ],
    [
      'a package imports itself by name',
      'libs/queue/src/put.ts',
      `import '@cofferdam/queue'`,
      'must not import libs/queue',
    ],
    [
      'a path leaves its workspace',
      'libs/queue/src/put.ts',
      `import '../../store/src/index.ts'`,
      'reaches out of its workspace',
    ],
    [
      'an import goes past the exports',
      'libs/queue/src/put.ts',
      `import '@cofferdam/contract/src/ids.ts'`,
      'is not among the exports',
    ],
    ['contract imports more than zod', 'libs/contract/src/ids.ts', `import 'nanoid'`, 'does not declare'],
    [
      'a package is not declared',
      'libs/queue/src/put.ts',
      `import { Redis } from 'ioredis'`,
      'imports ioredis, which libs/queue/package.json does not declare',
    ],
    [
      'a development dependency is used at run time',
      'libs/queue/src/put.ts',
      `import 'vitest'`,
      'imports vitest, which',
    ],
    ['a builtin has no prefix', 'libs/queue/src/put.ts', `import fs from 'fs'`, 'write node:fs'],
    [
      'a heavy SDK is loaded at once',
      'libs/sandbox/src/docker/index.ts',
      `import Docker from 'dockerode'`,
      'load dockerode by await import()',
    ],
    [
      'a lib reads the environment',
      'libs/queue/src/put.ts',
      `const url = process.env.REDIS_URL`,
      'reads process.env',
    ],
    [
      'a lib destructures the environment',
      'libs/queue/src/put.ts',
      `const { env } = process`,
      'reads process.env',
    ],
    [
      'an app reads it outside of config.ts',
      'apps/api/src/main.ts',
      `const url = process.env['REDIS_URL']`,
      'reads process.env',
    ],
    ['a file name says nothing', 'libs/queue/src/redis-utils.ts', ``, 'name it in kebab-case'],
    ['a file name is not kebab-case', 'libs/queue/src/putJob.ts', ``, 'name it in kebab-case'],
  ])('report that %s', (_, path, code, expected) => {
    const problems = problemsOf({ [path]: code })
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(expected)
    expect(problems[0]).toContain(path)
  })

  it('report a heavy SDK outside of the backends even if it is loaded dynamically', () => {
    const tree = treeOf({ 'libs/queue/src/put.ts': `await import('dockerode')` })
    tree.workspaces.find(({ dir }) => dir === 'libs/queue')!.dependencies.push('dockerode')
    expect(importProblems(tree)).toEqual([
      'libs/queue/src/put.ts: dockerode belongs inside a package of libs/backends',
    ])
  })

  it.each(['', 'type '])('report a cycle between files that import each other with import %s', (type) => {
    const problems = problemsOf({
      'libs/queue/src/a.ts': `import { b } from './b.ts'`,
      'libs/queue/src/b.ts': `import ${type}{ a } from './a.ts'`,
    })
    expect(problems).toEqual(['cycle: libs/queue/src/a.ts → libs/queue/src/b.ts → libs/queue/src/a.ts'])
  })

  it('find no cycle if a file loads another one only when it needs it', () => {
    const problems = problemsOf({
      'libs/queue/src/a.ts': `await import('./b.ts')`,
      'libs/queue/src/b.ts': `import { a } from './a.ts'`,
    })
    expect(problems).toEqual([])
  })

  it('report a cycle between packages', () => {
    const problems = problemsOf({
      'libs/queue/src/put.ts': `import '@cofferdam/store'`,
      'libs/store/src/audit.ts': `import '@cofferdam/queue'`,
    })
    expect(problems).toContain('cycle: libs/queue → libs/store → libs/queue')
  })

  it('let the pages take types and what they are built from, but no code of our packages', () => {
    const pages = workspace('apps/dashboard', [])
    pages.devDependencies = ['preact', '@cofferdam/contract']
    const tree = treeOf(
      {
        'apps/dashboard/src/a.tsx': `import { h } from 'preact'\nimport type { X } from '@cofferdam/contract'`,
        'apps/dashboard/src/b.tsx': `import { X } from '@cofferdam/contract'\nexport const b = <p>{X}</p>`,
      },
      [pages],
    )
    expect(importProblems(tree)).toEqual([
      'apps/dashboard/src/b.tsx: import only types of @cofferdam/contract',
    ])
  })

  it('report a lib without a row in the table, and a contract that depends on more than zod', () => {
    const tree = treeOf({}, [workspace('libs/surprise')])
    tree.workspaces[0]!.dependencies.push('lodash')
    expect(importProblems(tree)).toEqual([
      'libs/contract/package.json: depends on lodash; contract depends on zod alone',
      'libs/surprise: has no row in LIB_ARROWS; decide what it may import',
    ])
  })

  it('do not take text for an import', () => {
    const code = `// import '@cofferdam/backends'\nconst text = "import '@cofferdam/backends'"`
    expect(problemsOf({ 'libs/executor/src/run.ts': code })).toEqual([])
  })
})
