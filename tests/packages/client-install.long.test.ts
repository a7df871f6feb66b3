/**
 * What a user without this repository does with the client's tarball: an empty folder, a package manager, and
 * the README.
 */
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { createClient, type ExecutionId } from '@cofferdam/client'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { pack, type Packed } from '../../scripts/packages/pack.ts'
import { publishedPackage } from '../../scripts/packages/published.ts'
import { startUp, type Up } from '../e2e/up.ts'
import { startNetwork } from './network.ts'
import { done, INSTALL_MS, installTools, NODES, ROOT, start, tool } from './tools.ts'

const scratch = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-packages-'))
let packed: Packed
let up: Up

beforeAll(async () => {
  await installTools()
  packed = await pack(ROOT, publishedPackage('@cofferdam/client'), scratch)
  up = await startUp()
}, INSTALL_MS)
afterAll(async () => {
  await up?.stop()
  await rm(scratch, { recursive: true, force: true })
})

/** The environment of a program that talks to the fleet. */
const fleet = () => ({ COFFERDAM_URL: up.url, COFFERDAM_API_KEY: up.apiKey })

async function emptyFolder(files: Record<string, string> = {}): Promise<string> {
  const folder = await mkdtemp(path.join(scratch, 'project-'))
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(folder, name), text)
  return folder
}

/** A project of ES modules in which npm has installed the tarball. */
async function installed(files: Record<string, string>): Promise<string> {
  const folder = await emptyFolder({ 'package.json': '{"type":"module"}', ...files })
  await done(start('npm', ['install', '--no-audit', '--no-fund', packed.file], folder))
  return folder
}

/** The README's program as it stands there, but for the address of the fleet. */
async function readmeProgram(): Promise<string> {
  const readme = await readFile(path.join(ROOT, 'libs/client/README.md'), 'utf8')
  const program = /```ts\n(import \{ createClient[\s\S]*?)```/.exec(readme)?.[1] ?? ''
  expect(program.trim().split('\n').length).toBeLessThan(10)
  return program.replace('http://127.0.0.1:7070', up.url)
}

/** A program in plain JavaScript for every runtime: `Deno` and Node have these globals. */
const PLAIN = `
import { createClient } from '@cofferdam/client'
const env = (name) => (globalThis.Deno ? Deno.env.get(name) : process.env[name])
const client = createClient({ baseUrl: env('COFFERDAM_URL'), apiKey: env('COFFERDAM_API_KEY') })
const program = { type: 'script', language: 'python', source: 'print("installed")' }
const { ending, stdout } = await client.run({ tenant_id: 'demo', agent_id: 'analyst', program })
let rows = 0
for await (const row of client.audit.list({ tenant_id: 'demo', limit: 1 }))
  if (++rows === 2 || !row.ending) break
console.log(ending, stdout.trim(), rows > 0)
await client.close()
`

needs('process').describe('the tarball of @cofferdam/client', () => {
  it('has JavaScript, types and a source map for each module, and nothing else but texts', async () => {
    const names = packed.files.map((file) => file.path)
    const modules = names.filter((name) => name.endsWith('.js')).map((name) => name.slice(0, -3))
    expect(modules.length).toBeGreaterThan(10)
    const expected = modules.flatMap((name) => [`${name}.js`, `${name}.js.map`, `${name}.d.ts`])
    expect(names.toSorted()).toEqual([...expected, 'LICENSE', 'README.md', 'package.json'].toSorted())
    expect(names.filter((name) => name.includes('test'))).toEqual([])
  })

  it('needs no other package and nothing of Node alone', async () => {
    const folder = await emptyFolder()
    await done(start('tar', ['-xzf', packed.file], folder))
    const manifest = JSON.parse(await readFile(path.join(folder, 'package/package.json'), 'utf8'))
    expect(manifest).toMatchObject({ name: '@cofferdam/client', type: 'module', license: 'Apache-2.0' })
    expect(manifest).not.toHaveProperty('private')
    expect(manifest.dependencies ?? {}).toEqual({})
    for (const name of await readdir(path.join(folder, 'package/dist'), { recursive: true })) {
      if (!name.endsWith('.js')) continue
      const text = await readFile(path.join(folder, 'package/dist', name), 'utf8')
      expect(text, name).not.toMatch(/from ['"](?!\.)|import\(/)
    }
  })

  it('is small in a bundle for browsers', async () => {
    const folder = await installed({ 'main.js': `export { createClient } from '@cofferdam/client'` })
    const bundler = path.join(ROOT, 'node_modules/rolldown/bin/cli.mjs')
    const args = [bundler, 'main.js', '--platform', 'browser', '--minify', '--file', 'out.js']
    await done(start(process.execPath, args, folder))
    expect(await readFile(path.join(folder, 'out.js'), 'utf8')).not.toMatch(/node:|require\(/)
    expect((await stat(path.join(folder, 'out.js'))).size).toBeLessThan(40_000)
  })
})

/** Compiles a program against the tarball, installed into a folder of its own. Resolves with JavaScript. */
async function compiled(program: string): Promise<string> {
  const folder = await installed({ 'main.ts': program })
  const types = path.join(ROOT, 'node_modules/@types')
  const args = ['main.ts', '--strict', '--module', 'nodenext', '--target', 'es2022']
  const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc')
  await done(start(process.execPath, [tsc, ...args, '--types', 'node', '--typeRoots', types], folder))
  return readFile(path.join(folder, 'main.js'), 'utf8')
}

needs('process').describe('the program of the README', () => {
  let program: string
  beforeAll(async () => {
    program = await compiled(await readmeProgram())
  })

  it.each(Object.entries(NODES))('prints what the sandbox prints on %s', async (_name, node) => {
    const folder = await installed({ 'main.js': program })
    const output = await done(start(node, ['main.js'], folder, fleet()))
    expect(output).toMatch(/^2\nok \{/)
    expect(output).toContain('wall_ms')
  })
})

needs('process').describe('the types', () => {
  const MISUSE = `
import { createClient } from '@cofferdam/client'
const client = createClient({ baseUrl: '', apiKey: '' })
const program = { type: 'script', language: 'python', source: '' } as const
const minimal = { tenant_id: 'a', agent_id: 'b', program }
await client.run(minimal)
// @ts-expect-error: there is no such language
await client.run({ ...minimal, program: { type: 'script', language: 'cobol', source: '' } })
// @ts-expect-error: the tenant is missing
await client.run({ agent_id: 'b', program })
for await (const { event } of client.stream((await client.enqueue(minimal)).execution_id)) {
  if (event.type === 'output') event.text.trim()
  // @ts-expect-error: only output has a text
  if (event.type === 'ended') event.text
}
const status: 'ok' | undefined = (await client.run(minimal)).ending === 'ok' ? 'ok' : undefined
export { status }
`
  it.each([
    ['TypeScript 7, nodenext, of Node', 'nodenext', 'es2023', ['node'], 7],
    ['TypeScript 7, bundler, of browsers', 'bundler', 'es2022,dom,dom.iterable,dom.asynciterable', [], 7],
    ['TypeScript 5, nodenext, of Node', 'nodenext', 'es2022', ['node'], 5],
    ['TypeScript 5, bundler, of browsers', 'bundler', 'es2022,dom,dom.iterable', [], 5],
  ])('are strict and complete: %s', async (_name, resolution, lib, types, version) => {
    const folder = await installed({ 'main.ts': MISUSE })
    const compilerOptions = {
      strict: true,
      noEmit: true,
      target: 'es2022',
      module: resolution === 'bundler' ? 'esnext' : 'nodenext',
      moduleResolution: resolution,
      lib: lib.split(','),
      types,
      typeRoots: [path.join(ROOT, 'node_modules/@types')],
      skipLibCheck: false,
      exactOptionalPropertyTypes: true,
    }
    await writeFile(
      path.join(folder, 'tsconfig.json'),
      JSON.stringify({ compilerOptions, files: ['main.ts'] }),
    )
    const compiler = version === 7 ? 'node_modules/typescript/bin/tsc' : null
    const tsc = compiler === null ? tool('typescript-5/lib/tsc.js') : path.join(ROOT, compiler)
    expect(await done(start(process.execPath, [tsc, '-p', '.'], folder))).toBe('')
  })
})

needs('process').describe('a project of another package manager', () => {
  const node = NODES['node-22'] ?? ''

  it('pnpm', async () => {
    const folder = await emptyFolder({ 'package.json': '{"type":"module"}', 'main.js': PLAIN })
    await done(start(process.execPath, [tool('pnpm/bin/pnpm.mjs'), 'add', packed.file], folder))
    expect(await done(start(node, ['main.js'], folder, fleet()))).toBe('ok installed true\n')
  })

  it('yarn 1', async () => {
    const folder = await emptyFolder({ 'package.json': '{"type":"module"}', 'main.js': PLAIN })
    const args = [tool('yarn-1/bin/yarn.js'), 'add', '--non-interactive', packed.file]
    await done(start(process.execPath, args, folder))
    expect(await done(start(node, ['main.js'], folder, fleet()))).toBe('ok installed true\n')
  })

  it("yarn 4 with Plug'n'Play", async () => {
    const files = { 'package.json': '{"type":"module"}', 'yarn.lock': '', 'main.js': PLAIN }
    const folder = await emptyFolder(files)
    const yarn = [tool('yarn-4/bin/yarn.js')]
    await done(start(node, [...yarn, 'add', `@cofferdam/client@file:${packed.file}`], folder))
    const output = await done(start(node, [...yarn, 'node', 'main.js'], folder, fleet()))
    expect(output).toBe('ok installed true\n')
  })

  it('Deno', async () => {
    const folder = await installed({ 'main.js': PLAIN })
    const args = ['run', '--node-modules-dir=manual', '--allow-net', '--allow-env', 'main.js']
    const output = await done(start(tool('.bin/deno'), args, folder, fleet()))
    expect(output).toBe('ok installed true\n')
  })
})

needs('process').describe('a laptop that sleeps in the middle of a stream', () => {
  const SOURCE = 'import time\nfor n in range(30):\n    print(n, flush=True)\n    time.sleep(0.1)'
  const program = `
import { createClient } from '@cofferdam/client'
const client = createClient({ baseUrl: process.env.COFFERDAM_URL, apiKey: process.env.COFFERDAM_API_KEY })
const program = { type: 'script', language: 'python', source: ${JSON.stringify(SOURCE)} }
const { execution_id } = await client.enqueue({ tenant_id: 'demo', agent_id: 'laptop', program })
console.log(execution_id)
for await (const { event } of client.stream(execution_id)) {
  if (event.type === 'output') process.stdout.write(event.text)
  if (event.type === 'ended') console.log(event.ending)
}
`

  it('misses nothing and repeats nothing, although nobody closed its connection', async () => {
    const folder = await installed({ 'main.js': program })
    await using network = await startNetwork(up.url)
    const laptop = start(NODES['node-20'] ?? '', ['main.js'], folder, {
      ...fleet(),
      COFFERDAM_URL: network.url,
    })
    await expect.poll(() => laptop.stdout(), { timeout: 60_000 }).toMatch(/\n3\n/)
    laptop.process.kill('SIGSTOP')
    network.loseConnections()
    await using elsewhere = createClient({ baseUrl: up.url, apiKey: up.apiKey })
    const id = laptop.stdout().split('\n')[0] as ExecutionId
    expect(await elsewhere.wait(id)).toMatchObject({ ending: 'ok' })
    laptop.process.kill('SIGCONT')
    const numbers = Array.from({ length: 30 }, (_, n) => `${n}\n`).join('')
    expect(await done(laptop)).toBe(`${id}\n${numbers}ok\n`)
  })
})
