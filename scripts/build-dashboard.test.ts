/** The build of the dashboard, by the real vite, in an invented tree. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { buildDashboard } from './build-dashboard.mjs'
import { dashboardStamp } from './dashboard-stamp.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
/** Vite starts in a second, or in twenty on a busy machine. Some tests start it twice. */
const BUILT = { timeout: 120_000 }

let root: string
const at = (...parts: string[]): string => path.join(root, 'apps/dashboard', ...parts)
const write = (name: string, text: string): void => writeFileSync(path.join(root, name), text)
const lock = (versions: Record<string, string>): void => {
  const dependencies = { 'apps/dashboard': { dependencies: { preact: '1' } } }
  const placed = Object.entries(versions).map(([name, version]) => [`node_modules/${name}`, { version }])
  write(
    'package-lock.json',
    JSON.stringify({ packages: { '': {}, ...dependencies, ...Object.fromEntries(placed) } }),
  )
}

beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), 'cofferdam pages-'))
  mkdirSync(at('src'), { recursive: true })
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(root, 'node_modules'))
  lock({ preact: '11.2.0', vite: '8.0.0', unrelated: '1.0.0' })
  write('apps/dashboard/package.json', '{"type": "module"}')
  write('apps/dashboard/vite.config.ts', 'export default { build: { modulePreload: false } }\n')
  write('apps/dashboard/index.html', '<!doctype html><script type="module" src="/src/main.ts"></script>\n')
  const lines = Array.from({ length: 200 }, (_, n) => `console.log("line ${n}")`)
  write('apps/dashboard/src/main.ts', `const n: number = 7\nconsole.log(n)\n${lines.join('\n')}\n`)
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const script = (): string => readdirSync(at('dist/assets')).find((name) => name.endsWith('.js')) ?? ''

describe('the build of the dashboard', () => {
  it('runs vite once, with compressed copies, and not again while nothing changed', BUILT, async () => {
    expect(await buildDashboard(root)).toBe('built')
    expect(readFileSync(at('dist/index.html'), 'utf8')).toContain(`/assets/${script()}`)
    const text = readFileSync(at('dist/assets', script()))
    expect(gunzipSync(readFileSync(at('dist/assets', `${script()}.gz`)))).toEqual(text)
    expect(brotliDecompressSync(readFileSync(at('dist/assets', `${script()}.br`)))).toEqual(text)
    const { mtimeMs } = statSync(at('dist/index.html'))
    expect(await buildDashboard(root)).toBe('kept')
    expect(statSync(at('dist/index.html')).mtimeMs).toBe(mtimeMs)
    // Nothing else is left: no half a build, no old one.
    const left = ['dist', 'index.html', 'package.json', 'src', 'vite.config.ts']
    expect(readdirSync(at()).toSorted()).toEqual(left)
  })

  it('replaces a build whose sources changed, and leaves it when vite fails', BUILT, async () => {
    await buildDashboard(root)
    const before = script()
    write('apps/dashboard/src/main.ts', 'console.log("changed")\n')
    expect(await buildDashboard(root)).toBe('built')
    const after = script()
    expect(after).not.toBe(before)
    write('apps/dashboard/src/main.ts', 'import "./missing.ts"\n')
    await expect(buildDashboard(root)).rejects.toThrow('vite ended with 1')
    expect(script()).toBe(after)
    expect(readdirSync(at()).filter((name) => name.startsWith('dist'))).toEqual(['dist'])
  })

  it('leaves a whole build when two run at the same time', BUILT, async () => {
    expect(await Promise.all([buildDashboard(root), buildDashboard(root)])).toEqual(['built', 'built'])
    expect(readFileSync(at('dist/index.html'), 'utf8')).toContain(`/assets/${script()}`)
    expect(readdirSync(at()).filter((name) => name.startsWith('dist'))).toEqual(['dist'])
    expect(await buildDashboard(root)).toBe('kept')
  })

  it('does nothing in a tree without pages, and says what is missing without vite', async () => {
    rmSync(path.join(root, 'node_modules'))
    await expect(buildDashboard(root)).rejects.toThrow('vite is not installed')
    rmSync(at('vite.config.ts'))
    expect(await buildDashboard(root)).toBe('none')
    expect(existsSync(at('dist'))).toBe(false)
  })
})

describe('the stamp', () => {
  it('changes with files and locked packages of the dashboard, and with nothing else', () => {
    const first = dashboardStamp(root)
    mkdirSync(at('dist'))
    mkdirSync(at('node_modules'))
    write('apps/dashboard/dist/index.html', 'x')
    write('apps/dashboard/node_modules/x.js', 'x')
    lock({ preact: '11.2.0', vite: '8.0.0', unrelated: '2.0.0' })
    expect(dashboardStamp(root)).toBe(first)
    const stamps = new Set([first])
    for (const change of [
      () => lock({ preact: '11.2.1', vite: '8.0.0' }),
      () => lock({ preact: '11.2.1', vite: '8.0.1' }),
      () => write('apps/dashboard/src/main.ts', 'x'),
      () => write('apps/dashboard/src/other.ts', 'x'),
      () => write('tsconfig.json', '{}'),
      () => rmSync(at('src/other.ts')) ?? write('apps/dashboard/src/x.ts', 'x'),
    ]) {
      change()
      stamps.add(dashboardStamp(root))
    }
    expect(stamps.size).toBe(7)
  })
})
