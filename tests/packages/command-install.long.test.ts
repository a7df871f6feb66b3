/**
 * What a user without this repository does with the command's tarball in an empty folder: `cofferdam up`,
 * `run`, and the doubles of external services.
 */
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { hasDashboard } from '../../scripts/dashboard-stamp.mjs'
import { pack, type Packed } from '../../scripts/packages/pack.ts'
import { publishedPackage } from '../../scripts/packages/published.ts'
import { done, INSTALL_MS, installTools, NODES, ROOT, start, type Started } from './tools.ts'

const folder = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-command-'))
let packed: Packed

beforeAll(async () => {
  // If root has no user namespaces, its Postgres runs as another user. That user must be able to enter this
  // folder.
  await chmod(folder, 0o711)
  await installTools()
  packed = await pack(ROOT, publishedPackage('cofferdam'), folder)
  await done(start('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error', packed.file], folder))
}, INSTALL_MS)
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Starts the installed command on an old Node. */
const cofferdam = (...args: string[]): Started =>
  start(NODES['node-20'] ?? '', ['node_modules/.bin/cofferdam', ...args], folder, {
    PATH: process.env['PATH'],
    COFFERDAM_BACKENDS: 'process',
  })

needs('process').describe('the tarball of cofferdam', () => {
  it('has no TypeScript and no tests', () => {
    const names = packed.files.map((file) => file.path)
    expect(names).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'package.json']))
    expect(names.filter((name) => /\.ts$|\.test\.|\/(test|conformance)\//.test(name))).toEqual([])
  })

  it('has the dashboard, if the tree has one, with compressed copies', () => {
    const pages = packed.files.filter(({ path: file }) => file.startsWith('dist/apps/dashboard/dist/'))
    const names = pages.map(({ path: file }) => path.posix.basename(file))
    expect(names.includes('index.html')).toBe(hasDashboard(ROOT))
    expect(names.some((name) => name.endsWith('.js.br'))).toBe(hasDashboard(ROOT))
  })

  it('says the version of the changelog', async () => {
    const changelog = await readFile(path.join(ROOT, 'CHANGELOG.md'), 'utf8')
    const [, version] = /^## (?:Unreleased: )?(\S+)$/m.exec(changelog) ?? []
    expect(packed.version).toBe(version)
    expect(await done(cofferdam('--version'))).toBe(`${version}\n`)
  })

  it('starts a fleet in an empty folder, runs the demo and stops at once with --once', async () => {
    const output = await done(cofferdam('up', '--once', '--port', '0', '--json'))
    expect(JSON.parse(output.split('\n')[0] ?? '')).toMatchObject({ result: { ok: true, value: 2 } })
  })

  it('runs a file in the sandbox without a fleet, and ends with the status of the program', async () => {
    await writeFile(
      path.join(folder, 'hello.ts'),
      'const n: number = 6 * 7\nconsole.log(n)\nprocess.exit(3)\n',
    )
    expect(await cofferdam('run', '--local', 'hello.ts').ended).toMatchObject({
      code: 3,
      stdout: expect.stringContaining('42'),
    })
  })

  it.each(['agentcore', 'azure', 'e2b', 'kubernetes', 'managed-agents'])(
    'starts the double %s',
    async (name) => {
      const double = cofferdam('double', name, '--json')
      const { stdout } = double.process
      if (stdout !== null) await once(stdout, 'data')
      double.process.kill('SIGTERM')
      expect(JSON.parse((await double.ended).stdout.split('\n')[0] ?? '')).toMatchObject({ double: name })
    },
  )
})
