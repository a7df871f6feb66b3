/** Runs real pip and npm through the package proxy with loopback mirrors. Only allowed packages install. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createEgress, egressConfigSchema, packageEnvironment, type ExecutionEgress } from '@cofferdam/egress'
import { proxyEnv } from '@cofferdam/sandbox/guest'
import { needs } from '@cofferdam/embedded/needs'
import { describe, expect, it } from 'vitest'
import { startNpmMirror, type NpmMirror } from '../../infra/doubles/npm/npm-mirror.ts'
import { buildTarball } from '../../infra/doubles/npm/npm-package.ts'
import { startPypiMirror, type PypiMirror } from '../../infra/doubles/pypi/pypi-mirror.ts'
import { buildSdist, buildWheel } from '../../infra/doubles/pypi/python-package.ts'

interface Ran {
  status: number
  output: string
}

/** A folder in which package managers run. They reach the network only through an execution's egress. */
async function startPlace(
  mirrors: { pypi?: string; npm?: string },
  packages: { pypi: string[]; npm: string[] },
): Promise<
  AsyncDisposable & {
    folder: string
    egress: ExecutionEgress
    run(program: string, ...argv: string[]): Promise<Ran>
  }
> {
  const folder = await mkdtemp(join(tmpdir(), 'cofferdam-install-'))
  const worker = createEgress({
    config: egressConfigSchema.parse({ package_mirrors: mirrors }),
    resolve: () => Promise.resolve([]),
  })
  const egress = worker.open({ network: 'none', packages })
  const bridge = createServer({ allowHalfOpen: true }, (socket) => egress.accept(socket))
  await new Promise<void>((done) => bridge.listen(0, '127.0.0.1', done))
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: folder,
    PIP_CONFIG_FILE: '/dev/null',
    npm_config_cache: join(folder, '.npm'),
    ...proxyEnv((bridge.address() as AddressInfo).port),
    ...packageEnvironment(),
  }
  return {
    folder,
    egress,
    run: (program, ...argv) => runProgram(program, argv, folder, env),
    async [Symbol.asyncDispose]() {
      await worker[Symbol.asyncDispose]()
      await new Promise((done) => bridge.close(done))
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function runProgram(program: string, argv: string[], cwd: string, env: Record<string, string>): Promise<Ran> {
  const { promise, resolve } = Promise.withResolvers<Ran>()
  execFile(program, argv, { cwd, env, timeout: 120_000 }, (error, stdout, stderr) => {
    const status = error === null ? 0 : typeof error.code === 'number' ? error.code : 1
    resolve({ status, output: stdout + stderr })
  })
  return promise
}

const PYTHON = [
  buildWheel({ name: 'Demo.Pkg', version: '1.2', requires: ['helper-lib>=1'] }),
  buildWheel({ name: 'Demo.Pkg', version: '2.0', requires: ['helper-lib>=1'] }),
  buildWheel({ name: 'helper-lib', version: '1.0' }),
  buildWheel({ name: 'helper-lib', version: '1.1', requiresPython: '>=3' }),
  buildWheel({ name: 'needs-evil', version: '1.0', requires: ['evil-dep'] }),
  buildWheel({ name: 'evil-dep', version: '6.6.6' }),
  buildSdist({ name: 'from-source', version: '0.3' }),
]

const pip = (
  place: { run(program: string, ...argv: string[]): Promise<Ran> },
  ...argv: string[]
): Promise<Ran> => place.run('python3', '-m', 'pip', 'install', '--target', 'site', '--no-cache-dir', ...argv)

needs('pip').describe('pip', () => {
  it.each([
    ['JSON', false],
    ['HTML', true],
  ])(
    'installs an allowed package in an allowed version from a mirror that speaks %s',
    async (_what, htmlOnly) => {
      await using mirror: PypiMirror = await startPypiMirror({ distributions: PYTHON, htmlOnly })
      await using place = await startPlace(
        { pypi: mirror.url },
        { pypi: ['demo-pkg<2', 'helper_lib'], npm: [] },
      )
      const ran = await pip(place, 'demo-pkg')
      // Versions of pip write the name differently.
      expect(ran.output).toMatch(/Successfully installed demo[-.]pkg-1\.2 helper-lib-1\.1/i)
      expect(ran.status).toBe(0)
      expect(await readFile(join(place.folder, 'site/demo_pkg.py'), 'utf8')).toBe('__version__ = "1.2"\n')
      expect(place.egress.installed).toEqual([
        { name: 'demo-pkg', version: '1.2' },
        { name: 'helper-lib', version: '1.1' },
      ])
      expect(place.egress.refusedPackages).toEqual([])
      // The audit row of an install has these hosts: the source of its packages.
      expect(place.egress.hosts).toEqual([new URL(mirror.url).host])
    },
  )

  it('fails for a dependency that is not allowed, names it, and never asks the mirror for it', async () => {
    await using mirror = await startPypiMirror({ distributions: PYTHON })
    await using place = await startPlace({ pypi: mirror.url }, { pypi: ['needs-evil'], npm: [] })
    const ran = await pip(place, 'needs-evil')
    expect(ran.status).not.toBe(0)
    expect(ran.output).toContain('No matching distribution found for evil-dep')
    expect(place.egress.refusedPackages).toEqual([
      { name: 'evil-dep', reason: "package evil-dep is not on the tenant's allow-list" },
    ])
    expect(mirror.requests.filter((path) => path.includes('evil-dep') || path.includes('evil_dep'))).toEqual(
      [],
    )
  })

  it('cannot get a version outside of the rule, neither by version nor by file', async () => {
    await using mirror = await startPypiMirror({ distributions: PYTHON })
    await using place = await startPlace(
      { pypi: mirror.url },
      { pypi: ['demo-pkg<2', 'helper-lib'], npm: [] },
    )
    const ran = await pip(place, 'demo-pkg==2.0')
    expect(ran.status).not.toBe(0)
    expect(ran.output).toContain('from versions: 1.2')
    const file = 'http://packages.cofferdam.internal/pypi/files/demo-pkg/demo_pkg-2.0-py3-none-any.whl'
    const direct = await pip(place, file)
    expect(direct.status).not.toBe(0)
    expect(place.egress.refusedPackages).toEqual([
      { name: 'demo-pkg', reason: "version 2.0 of demo-pkg is outside of the tenant's rule demo-pkg<2" },
    ])
    expect(place.egress.installed).toEqual([])
  })

  it('refuses a wheel whose bytes do not match its digest', async () => {
    const wheel = buildWheel({ name: 'helper-lib', version: '1.0' })
    const other = buildWheel({ name: 'helper-lib', version: '1.0', files: { 'helper_lib.py': 'evil = 1\n' } })
    await using mirror = await startPypiMirror({
      distributions: [wheel],
      tampered: new Map([[wheel.filename, other.bytes]]),
    })
    await using place = await startPlace({ pypi: mirror.url }, { pypi: ['*'], npm: [] })
    const ran = await pip(place, 'helper-lib')
    expect(ran.status).not.toBe(0)
    expect(ran.output).toContain('DO NOT MATCH THE HASHES')
  })

  it('gets complete source distributions, as Python itself reads them', async () => {
    await using mirror = await startPypiMirror({ distributions: PYTHON })
    await using place = await startPlace({ pypi: mirror.url }, { pypi: ['from-source'], npm: [] })
    // Does not use pip: to download a source distribution, pip would build it with this machine's build
    // tools.
    const program = `
import hashlib, io, re, tarfile, urllib.request
page = urllib.request.urlopen("http://packages.cofferdam.internal/pypi/simple/From_Source/").read().decode()
url, digest = re.search('href="(.*?)#sha256=(.*?)"', page).groups()
data = urllib.request.urlopen(url).read()
assert hashlib.sha256(data).hexdigest() == digest
print(tarfile.open(fileobj=io.BytesIO(data)).getnames())`
    const ran = await place.run('python3', '-c', program)
    expect(ran.output).toBe(
      "['from_source-0.3/PKG-INFO', 'from_source-0.3/setup.py', 'from_source-0.3/from_source.py']\n",
    )
    expect(place.egress.installed).toEqual([{ name: 'from-source', version: '0.3' }])
  })

  it('reaches only the mirror: other indexes are refused', async () => {
    await using mirror = await startPypiMirror({ distributions: PYTHON })
    await using place = await startPlace({ pypi: mirror.url }, { pypi: ['*'], npm: [] })
    const ran = await pip(place, '--index-url', 'https://index.example/simple/', 'helper-lib')
    expect(ran.status).not.toBe(0)
    expect(ran.output).toContain('Tunnel connection failed: 403')
    expect(mirror.requests).toEqual([])
    expect(place.egress.refusals).toEqual([
      { target: 'index.example:443', rule: 'network', reason: 'this execution has no network' },
    ])
  })
})

const NODE = [
  buildTarball({ name: 'app-lib', version: '1.0.0', dependencies: { '@acme/tool': '^1.0.0' } }),
  buildTarball({ name: 'app-lib', version: '2.0.0', dependencies: { '@acme/tool': '^1.0.0' } }),
  buildTarball({ name: '@acme/tool', version: '1.4.0' }),
  buildTarball({ name: 'needs-evil', version: '1.0.0', dependencies: { 'evil-dep': '*' } }),
  buildTarball({ name: 'evil-dep', version: '6.6.6' }),
]

const project = (folder: string, dependencies: Record<string, string>): Promise<void> =>
  writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'mine', version: '1.0.0', dependencies }))

describe('npm', () => {
  it('installs allowed packages in an allowed version, also with scoped names', async () => {
    await using mirror: NpmMirror = await startNpmMirror({ tarballs: NODE })
    await using place = await startPlace({ npm: mirror.url }, { pypi: [], npm: ['app-lib@^1', '@acme/*'] })
    await project(place.folder, { 'app-lib': '*' })
    const ran = await place.run('npm', 'install')
    expect(ran.output).toContain('added 2 packages')
    expect(ran.status).toBe(0)
    expect(place.egress.installed.toSorted((a, b) => a.name.localeCompare(b.name))).toEqual([
      { name: '@acme/tool', version: '1.4.0' },
      { name: 'app-lib', version: '1.0.0' },
    ])
    // `latest` is 2.0.0 on the mirror. The tenant's `latest` is the greatest allowed version.
    await rm(join(place.folder, 'node_modules'), { recursive: true })
    expect((await place.run('npm', 'install', 'app-lib@latest')).status).toBe(0)
    const manifest = await readFile(join(place.folder, 'node_modules/app-lib/package.json'), 'utf8')
    expect(JSON.parse(manifest)).toMatchObject({ version: '1.0.0' })
  })

  it('installs from a lock file that was made with another registry', async () => {
    await using mirror = await startNpmMirror({ tarballs: NODE })
    await using place = await startPlace({ npm: mirror.url }, { pypi: [], npm: ['*'] })
    await project(place.folder, { 'app-lib': '^1.0.0' })
    expect((await place.run('npm', 'install', '--package-lock-only')).status).toBe(0)
    const lock = await readFile(join(place.folder, 'package-lock.json'), 'utf8')
    expect(lock).toContain('http://packages.cofferdam.internal/npm/app-lib/-/app-lib-1.0.0.tgz')
    const foreign = lock.replaceAll('http://packages.cofferdam.internal/npm/', 'https://registry.example/')
    await writeFile(join(place.folder, 'package-lock.json'), foreign)
    const ran = await place.run('npm', 'ci')
    expect(ran.output).toContain('added 2 packages')
  })

  it('fails for a dependency that is not allowed, names it, and never asks the mirror for it', async () => {
    await using mirror = await startNpmMirror({ tarballs: NODE })
    await using place = await startPlace({ npm: mirror.url }, { pypi: [], npm: ['needs-evil'] })
    await project(place.folder, { 'needs-evil': '*' })
    const ran = await place.run('npm', 'install')
    expect(ran.status).not.toBe(0)
    expect(ran.output).toContain("package evil-dep is not on the tenant's allow-list")
    expect(place.egress.refusedPackages).toEqual([
      { name: 'evil-dep', reason: "package evil-dep is not on the tenant's allow-list" },
    ])
    expect(mirror.requests).toEqual(['/needs-evil'])
  })

  it('cannot get a version outside of the rule', async () => {
    await using mirror = await startNpmMirror({ tarballs: NODE })
    await using place = await startPlace({ npm: mirror.url }, { pypi: [], npm: ['app-lib@1.x', '@acme/*'] })
    await project(place.folder, { 'app-lib': '2.0.0' })
    const ran = await place.run('npm', 'install')
    expect(ran.status).not.toBe(0)
    expect(ran.output).toContain('No matching version found for app-lib@2.0.0')
    const direct = await place.run(
      'npm',
      'install',
      'http://packages.cofferdam.internal/npm/app-lib/-/app-lib-2.0.0.tgz',
    )
    expect(direct.status).not.toBe(0)
    expect(direct.output).toContain("version 2.0.0 of app-lib is outside of the tenant's rule app-lib@1.x")
    expect(place.egress.installed).toEqual([])
  })

  it('refuses a tarball whose bytes do not match its integrity', async () => {
    const evil = buildTarball({ name: '@acme/tool', version: '1.4.0', files: { 'index.js': 'evil()' } })
    await using mirror = await startNpmMirror({
      tarballs: NODE,
      tampered: new Map([['@acme/tool@1.4.0', evil.bytes]]),
    })
    await using place = await startPlace({ npm: mirror.url }, { pypi: [], npm: ['*'] })
    await project(place.folder, { '@acme/tool': '*' })
    const ran = await place.run('npm', 'install')
    expect(ran.status).not.toBe(0)
    expect(ran.output).toContain('EINTEGRITY')
  })

  it('reports that no mirror is configured', async () => {
    await using place = await startPlace({}, { pypi: ['*'], npm: ['*'] })
    await project(place.folder, { '@acme/tool': '*' })
    const ran = await place.run('npm', 'install')
    expect(ran.output).toContain('no npm mirror is configured on this worker')
    expect(place.egress.refusedPackages).toEqual([
      { name: '@acme/tool', reason: 'no npm mirror is configured on this worker' },
    ])
  })
})

describe('the mirror doubles as commands', () => {
  it.each([
    ['pypi', 'simple/helper-lib/', 'helper_lib-1.0-py3-none-any.whl'],
    ['npm', 'helper-lib', '/helper-lib/-/1.0.0.tgz'],
  ])('%s serves a folder', async (registry, page, expected) => {
    const folder = await mkdtemp(join(tmpdir(), 'cofferdam-mirror-'))
    const wheel = buildWheel({ name: 'helper-lib', version: '1.0' })
    await writeFile(join(folder, wheel.filename), wheel.bytes)
    await writeFile(join(folder, 'x.tgz'), buildTarball({ name: 'helper-lib', version: '1.0.0' }).bytes)
    const main = new URL(`../../infra/doubles/${registry}/main.ts`, import.meta.url).pathname
    const child = execFile(process.execPath, [main, '--port', '0', '--dir', folder])
    try {
      const line = await new Promise<string>((done, fail) => {
        child.stdout?.once('data', done)
        child.once('exit', () => fail(new Error('it ended')))
      })
      const text = await (await fetch(new URL(page, line.trim().replace('simple/', '')))).text()
      expect(text).toContain(expected)
    } finally {
      const gone = new Promise((done) => child.once('exit', done))
      child.kill()
      await gone
      await rm(folder, { recursive: true })
    }
  })
})
