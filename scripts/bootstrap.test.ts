/** The bootstrap in an invented repository with a replacement for npm, so that nothing is downloaded. */
import { spawn, type ChildProcess } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'

/** Logs each call, then does what the test wants. Installs the running Node as the pinned one. */
const NPM = `
const fs = require('fs'), path = require('path')
fs.appendFileSync('npm.log', process.argv.slice(2).join(' ') + '\\n')
const waiting = setInterval(() => {
  // Also stops waiting when a failed test has removed the folder.
  if (process.env.NPM_GATE && fs.existsSync('npm.log') && !fs.existsSync(process.env.NPM_GATE)) return
  clearInterval(waiting)
  if (process.env.NPM_FAILS) { console.error('npm error network'); process.exit(7) }
  fs.rmSync('node_modules', { recursive: true, force: true })
  fs.mkdirSync('node_modules/.bin', { recursive: true })
  fs.mkdirSync('node_modules/node-here/bin', { recursive: true })
  if (process.env.NODE_BROKEN) fs.writeFileSync('node_modules/node-here/bin/node', '#!/bin/sh\\necho "node: cannot open shared object file" >&2; exit 127\\n', { mode: 0o755 })
  else fs.symlinkSync(process.execPath, 'node_modules/node-here/bin/node')
  fs.symlinkSync('../node-here/bin/node', 'node_modules/.bin/node')
}, 5)
`

/** The bootstrap and what it imports. */
const SCRIPTS = [
  'bootstrap.mjs',
  'build-dashboard.mjs',
  'dashboard-stamp.mjs',
  'pinned-node.mjs',
  'run-child.mjs',
]

let root = ''
let children: ChildProcess[] = []

beforeEach(() => {
  root = path.join(mkdtempSync(path.join(tmpdir(), 'cofferdam-bootstrap-')), 'a path with spaces')
  for (const dir of ['scripts', 'apps/one', 'npm']) mkdirSync(path.join(root, dir), { recursive: true })
  for (const name of SCRIPTS)
    cpSync(fileURLToPath(new URL(name, import.meta.url)), path.join(root, 'scripts', name))
  write('package.json', '{"name": "x", "scripts": {"a": "b"}, "optionalDependencies": {"node-here": "1"}}')
  write('package-lock.json', '{"packages": {}}')
  write('apps/one/package.json', '{"name": "one"}')
  write('npm/npm-cli.js', NPM)
  write('show.mjs', 'console.log(JSON.stringify(process.argv.slice(2)), process.env.NODE_COMPILE_CACHE)')
  children = []
})

afterEach(() => {
  for (const child of children)
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
  rmSync(path.dirname(root), { recursive: true, force: true })
})

const write = (name: string, text: string): void => writeFileSync(path.join(root, name), text)
const installs = (): number =>
  existsSync(path.join(root, 'npm.log'))
    ? readFileSync(path.join(root, 'npm.log'), 'utf8').trim().split('\n').length
    : 0

interface Run {
  child: ChildProcess
  ended: Promise<{ status: number | null; signal: string | null; stdout: string; stderr: string }>
  stdout(): string
  stderr(): string
}

function start(args: string[], env: Record<string, string> = {}): Run {
  const child = spawn(process.execPath, [path.join(root, 'scripts/bootstrap.mjs'), ...args], {
    cwd: tmpdir(),
    // Its own group without a terminal, as under a supervisor.
    detached: true,
    env: { PATH: process.env['PATH'] ?? '', npm_execpath: path.join(root, 'npm/npm-cli.js'), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.push(child)
  let stdout = ''
  let stderr = ''
  child.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const { promise, resolve } = Promise.withResolvers<Awaited<Run['ended']>>()
  child.on('close', (status, signal) => resolve({ status, signal, stdout, stderr }))
  return { child, ended: promise, stdout: () => stdout, stderr: () => stderr }
}

describe('the bootstrap', () => {
  it('installs once, then runs the script with its arguments on the installed Node', async () => {
    const first = await start(['show.mjs', 'a b', '--x']).ended
    expect(first.status).toBe(0)
    expect(first.stdout).toContain('["a b","--x"]')
    expect(first.stdout).toContain(path.join(root, 'node_modules/.cache'))
    expect(first.stderr).toContain('first start; installing')
    const second = await start(['show.mjs']).ended
    expect(second).toMatchObject({ status: 0, stderr: '' })
    expect(installs()).toBe(1)
    expect(existsSync(path.join(root, '.cache'))).toBe(false)
  })

  it('installs again when a dependency changed, but not when a script was renamed', async () => {
    await start(['show.mjs']).ended
    write('package.json', '{"name": "x", "scripts": {"c": "d"}, "optionalDependencies": {"node-here": "1"}}')
    await start(['show.mjs']).ended
    expect(installs()).toBe(1)
    write('apps/one/package.json', '{"name": "one", "dependencies": {"y": "1.0.0"}}')
    const { stderr } = await start(['show.mjs']).ended
    expect(stderr).toContain('dependencies changed; running npm ci')
    expect(installs()).toBe(2)
  })

  it('does not repeat an install that a user made', async () => {
    await start(['show.mjs']).ended
    write(
      'package-lock.json',
      '{"packages": {"": {}, "node_modules/y": {"version": "1.0.0"}, "node_modules/z": {"version": "2.0.0", "optional": true}}}',
    )
    write('node_modules/.package-lock.json', '{"packages": {"node_modules/y": {"version": "1.0.0"}}}')
    expect((await start(['show.mjs']).ended).stderr).toBe('')
    expect(installs()).toBe(1)
  })

  it('installs once when two bootstraps start at the same time', async () => {
    const gate = path.join(root, 'gate')
    const both = [start(['show.mjs'], { NPM_GATE: gate }), start(['show.mjs'], { NPM_GATE: gate })]
    // The gate keeps the first bootstrap installing until the second one waits for it, however late the
    // second one starts.
    await vi.waitFor(
      () => expect(both.filter((one) => one.stderr().includes('waiting for it'))).toHaveLength(1),
      15_000,
    )
    write('gate', '')
    const ends = await Promise.all(both.map(({ ended }) => ended))
    expect(ends.map(({ status }) => status)).toEqual([0, 0])
    expect(ends.filter(({ stderr }) => stderr.includes('waiting for it'))).toHaveLength(1)
    expect(installs()).toBe(1)
  })

  it('takes over from a bootstrap that died during its install', async () => {
    mkdirSync(path.join(root, '.cache'))
    const dead = spawn(process.execPath, ['-e', '0'])
    await new Promise((resolve) => dead.on('close', resolve))
    const { hostname } = await import('node:os')
    write('.cache/bootstrap.lock', `${dead.pid} ${hostname()}`)
    expect((await start(['show.mjs']).ended).status).toBe(0)
    expect(installs()).toBe(1)
  })

  it('reports what to do when npm fails, and retries at the next start', async () => {
    const failed = await start(['show.mjs'], { NPM_FAILS: '1' }).ended
    expect(failed.status).toBe(1)
    expect(failed.stdout).toBe('')
    expect(failed.stderr).toContain('npm ci failed with status 7')
    expect(failed.stderr).toContain('npm ping')
    expect((await start(['show.mjs']).ended).status).toBe(0)
    expect(installs()).toBe(2)
  })

  it('reports when there is no npm', async () => {
    const { status, stderr } = await start(['show.mjs'], { npm_execpath: '', PATH: path.join(root, 'apps') })
      .ended
    expect(status).toBe(1)
    expect(stderr).toContain('npm was not found on PATH')
  })

  it('removes from PATH a pinned Node that does not start, and uses a new enough Node', async () => {
    const { status, stdout } = await start(['show.mjs', 'x'], { NODE_BROKEN: '1' }).ended
    expect(status).toBe(0)
    expect(stdout).toContain('["x"]')
    expect(existsSync(path.join(root, 'node_modules/.bin/node'))).toBe(false)
    expect((await start(['show.mjs']).ended).status).toBe(0)
    expect(installs()).toBe(1)
  })

  it('ends with the status of the script, or by its signal', async () => {
    write('exit.mjs', 'process.exit(3)')
    write('die.mjs', "process.kill(process.pid, 'SIGKILL')")
    expect(await start(['exit.mjs']).ended).toMatchObject({ status: 3, signal: null })
    expect(await start(['die.mjs']).ended).toMatchObject({ status: null, signal: 'SIGKILL' })
  })

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    'passes %s on once, and the script decides what to do',
    async (signal) => {
      write(
        'stay.mjs',
        `let n = 0
       process.on('${signal}', () => { n++; setTimeout(() => { console.log('told', n); process.exit(5) }, 200) })
       console.log('up'); setInterval(() => {}, 1000)`,
      )
      const run = start(['stay.mjs'])
      await vi.waitFor(() => expect(run.stdout()).toContain('up'), { timeout: 15_000 })
      run.child.kill(signal)
      expect(await run.ended).toMatchObject({ status: 5, stdout: 'up\ntold 1\n' })
    },
  )

  it('requires a script to run', async () => {
    const { status, stderr } = await start([]).ended
    expect(status).toBe(1)
    expect(stderr).toContain('usage:')
  })
})
