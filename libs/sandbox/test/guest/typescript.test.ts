/**
 * TypeScript as users write it: what tsc and bundlers compile runs here, and other programs load nothing for
 * it.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ProgramFile } from '@cofferdam/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openLab, type Lab } from './start-agent.ts'

let lab: Lab
beforeAll(async () => {
  lab = await openLab()
})
afterAll(() => lab.close())

async function ran(source: string, files: Record<string, string> = {}): Promise<string> {
  const given: ProgramFile[] = Object.entries(files).map(([path, text]) => ({
    path,
    bytes: Buffer.from(text),
  }))
  const { stdout, stderr } = await lab.once(
    { type: 'script', language: 'typescript', source },
    { files: given },
  )
  return stdout + stderr
}

test('finds modules without an ending, by their JavaScript ending, and as a folder', async () => {
  const source = `import { a } from './a'
import { b } from './lib/b.js'
import { c } from './lib'
import { d } from './d.mjs'
import data from './data.json' with { type: 'json' }
console.log(a, b, c, d, data.e, require === undefined)`
  const files = {
    'a.ts': "import { b } from './lib/b'\nexport const a: string = 'a' + b",
    'lib/b.ts': "export const b = 'b' as const",
    'lib/index.ts': "export { b as c } from './b.js'",
    'd.mts': 'export const d: number = 4',
    'data.json': '{ "e": 5 }',
  }
  expect(await ran(source.replace(', require === undefined', ''), files)).toBe('ab b b 4 5\n')
  expect(
    await ran("const { a } = require('./a')\nconsole.log(a)", { 'a.cts': 'exports.a = 1 as number' }),
  ).toBe('1\n')
})

test('resolves paths of tsconfig.json, even with comments and from an extended file', async () => {
  const files = {
    'tsconfig.json': '{ // what is ours\n "extends": "./base.json", }',
    'base.json':
      '{ "compilerOptions": { "baseUrl": ".", "paths": { "@lib/*": ["src/lib/*"], "one": ["src/one.ts"] } } }',
    'src/lib/two.ts': 'export const two: number = 2',
    'src/one.ts': "import { two } from '@lib/two'\nexport const one = two - 1",
  }
  expect(
    await ran("import { one } from 'one'\nimport { two } from '@lib/two.js'\nconsole.log(one, two)", files),
  ).toBe('1 2\n')
})

test('drops imports of only types, from files and from packages', async () => {
  const files = {
    'types.ts':
      'export interface Point { x: number }\nexport const zero = 0\nexport default interface Named { name: string }',
    'node_modules/pkg/package.json': '{ "name": "pkg", "main": "index.js", "types": "index.d.ts" }',
    'node_modules/pkg/index.js': 'exports.value = 7',
  }
  const source = `import Named, { Point, zero } from './types'
import { Options, value } from 'pkg'
const at = (p: Point & Named, o?: Options): number => p.x + zero + value
console.log(at({ x: 1, name: 'n' }))
throw new Error('line five')`
  const printed = await ran(source, files)
  expect(printed).toMatch(/^8\n/)
  expect(printed).toContain('main.ts:5')
})

test('runs standard decorators and experimentalDecorators with metadata', async () => {
  const standard = `function twice(method: () => number, _context: ClassMethodDecoratorContext) { return function (this: unknown) { return 2 * method.call(this) } }
class A { @twice n() { return 21 } }
console.log(new A().n())
throw new Error('line four')`
  const printed = await ran(standard)
  expect(printed).toMatch(/^42\n/)
  expect(printed).toContain('main.ts:4')
  const legacy = `const seen: string[] = []
const Field = (target: object, key: string) => { seen.push(key) }
const Inject = (_target: unknown, _key: unknown, at: number) => { seen.push('parameter ' + at) }
class B { @Field name = 'b'; constructor(@Inject private service: string) {} }
console.log(seen.join())`
  const config = { 'tsconfig.json': '{ "compilerOptions": { "experimentalDecorators": true } }' }
  expect(await ran(legacy, config)).toBe('name,parameter 0\n')
})

test('reports a missing module like a bare run, without our frames', async () => {
  const program = {
    type: 'script',
    language: 'typescript',
    source: "import './nothing'\nconsole.log(1)",
  } as const
  const { stderr } = await lab.once(program)
  expect(stderr).toContain('ERR_MODULE_NOT_FOUND')
  expect(stderr).not.toContain('node-gate')
})

test('loads none of this for a program that does not need it', async () => {
  const said = 'process._rawDebug("loaded"); exports.install = () => {}'
  writeFileSync(join(lab.guestDir, 'node-gate/typescript.cjs'), said)
  const plain = `interface A { n: number }
const list: A[] = [{ n: 1 }]
console.log(list.map((a) => a.n satisfies number))`
  expect(await ran(plain)).toBe('[ 1 ]\n')
  expect(await ran("import fs from 'node:fs'\nconsole.log(typeof fs.statSync)")).toBe('function\n')
  expect(await ran("import { a } from './a.ts'\nconsole.log(a)", { 'a.ts': 'export const a = 1' })).toBe(
    '1\nloaded\n',
  )
})
