/** What a user without this repository does with the tarball of @cofferdam/tools, without any SDK. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { pack } from '../../scripts/packages/pack.ts'
import { publishedPackage } from '../../scripts/packages/published.ts'
import { startUp, type Up } from '../e2e/up.ts'
import { done, INSTALL_MS, installTools, NODES, ROOT, start, tool } from './tools.ts'

const scratch = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-tools-'))
const { exports: entries } = publishedPackage('@cofferdam/tools')
let up: Up

beforeAll(async () => {
  await installTools()
  const { file } = await pack(ROOT, publishedPackage('@cofferdam/tools'), scratch)
  await writeFile(path.join(scratch, 'package.json'), '{"type":"module"}')
  await done(start('npm', ['install', '--no-audit', '--no-fund', file], scratch))
  up = await startUp()
}, INSTALL_MS)
afterAll(async () => {
  await up?.stop()
  await rm(scratch, { recursive: true, force: true })
})

it('brings no other package', async () => {
  const lock = JSON.parse(await readFile(path.join(scratch, 'package-lock.json'), 'utf8'))
  expect(Object.keys(lock.packages)).toEqual(['', 'node_modules/@cofferdam/tools'])
  const manifest = path.join(scratch, 'node_modules/@cofferdam/tools/package.json')
  expect(Object.keys(JSON.parse(await readFile(manifest, 'utf8')).exports)).toEqual([
    ...Object.keys(entries),
    './package.json',
  ])
})

it.each([
  ['TypeScript 7, nodenext', 'nodenext', 7],
  ['TypeScript 7, bundler', 'bundler', 7],
  ['TypeScript 5, nodenext', 'nodenext', 5],
  ['TypeScript 5, bundler', 'bundler', 5],
])('has complete and strict declarations without any SDK: %s', async (_name, resolution, version) => {
  const names = Object.keys(entries).map((entry) => `@cofferdam/tools${entry.slice(1)}`)
  const imports = names.map((name, at) => `import * as entry${at} from '${name}'`)
  await writeFile(path.join(scratch, 'main.ts'), [...imports, 'export const all = [entry0]'].join('\n'))
  const compilerOptions = {
    strict: true,
    noEmit: true,
    target: 'es2022',
    module: resolution === 'bundler' ? 'esnext' : 'nodenext',
    moduleResolution: resolution,
    lib: ['es2022'],
    types: ['node'],
    typeRoots: [path.join(ROOT, 'node_modules/@types')],
    skipLibCheck: false,
    exactOptionalPropertyTypes: true,
  }
  const config = JSON.stringify({ compilerOptions, files: ['main.ts'] })
  await writeFile(path.join(scratch, 'tsconfig.json'), config)
  const tsc =
    version === 7 ? path.join(ROOT, 'node_modules/typescript/bin/tsc') : tool('typescript-5/lib/tsc.js')
  expect(await done(start(process.execPath, [tsc, '-p', '.'], scratch))).toBe('')
})

/** The README's first program, without its types: Node 20 strips none. */
async function readmeProgram(): Promise<string> {
  const readme = await readFile(path.join(ROOT, 'libs/tools/README.md'), 'utf8')
  const program = /```ts\n(import \{ createClient[\s\S]*?)```/.exec(readme)?.[1] ?? ''
  expect(program.trim().split('\n').length).toBeLessThan(10)
  const entryImports = Object.keys(entries).map(
    (entry) => `await import('@cofferdam/tools${entry.slice(1)}')`,
  )
  return [program.replace('http://127.0.0.1:7070', up.url), ...entryImports].join('\n')
}

const [, ...NAMES] = Object.keys(NODES)

// NAMES leaves out Node 20.0: the package needs AbortSignal.any, so its `engines` asks for 20.3.
needs('process').it.each(NAMES)('runs the program of its README on %s', async (name) => {
  await writeFile(path.join(scratch, 'main.js'), await readmeProgram())
  const output = await done(start(NODES[name] ?? '', ['main.js'], scratch, { COFFERDAM_API_KEY: up.apiKey }))
  expect(output).toMatch(/type: 'text',\s+text: 'Ended: ok, exit code 0, /)
  // Node prints a long string with line feeds as several strings joined by `+`. Join them again.
  expect(output.replaceAll(/' \+\s+'/g, '')).toContain("\\n\\nstdout, 2 bytes:\\n2'")
})
