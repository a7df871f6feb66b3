/** The dashboard's files over real connections: what is served, with which headers, and what never is. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, listen } from './browser.ts'
import { openScene, type Scene } from './scene.ts'

const INDEX = '<!doctype html><script type="module" src="/assets/app-1a2b3c4d.js"></script>'
const SCRIPT = 'console.log("hello")\n'.repeat(200)
const HTML = { accept: 'text/html,application/xhtml+xml' }

/** All security headers of a page of the dashboard. */
const PAGE_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
    "require-trusted-types-for 'script'; trusted-types 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
}

let scene: Scene
let folder: string
let port: number
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'cofferdam-pages-'))
  await mkdir(path.join(folder, 'dist/assets/.git'), { recursive: true })
  const write = (name: string, text: string | Buffer) => writeFile(path.join(folder, 'dist', name), text)
  await write('index.html', INDEX)
  await write('assets/app-1a2b3c4d.js', SCRIPT)
  await write('assets/app-1a2b3c4d.js.gz', gzipSync(SCRIPT))
  await write('assets/app-1a2b3c4d.css', 'body { color: red }')
  await write('assets/.git/config', 'secret')
  await write('.stamp', 'secret')
  await writeFile(path.join(folder, 'outside.txt'), 'secret')
  scene = await openScene()
  port = await listen(await scene.another({}, { dashboardDir: path.join(folder, 'dist') }))
})
afterAll(async () => {
  await scene?.[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

describe('the page', () => {
  it.each(['/', '/?tenant=acme', '/executions', '/executions/exe_1?tab=output', '/a%20b'])(
    'answers %s of a browser, asks again each time, and runs nothing inline',
    async (address) => {
      const reply = await ask(port, { path: address, headers: HTML })
      expect(reply).toMatchObject({ status: 200, text: INDEX })
      expect(reply.headers).toMatchObject({
        ...PAGE_HEADERS,
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-cache',
      })
    },
  )

  it('answers HEAD, and a program that asks for / too', async () => {
    const head = await ask(port, { method: 'HEAD', path: '/', headers: HTML })
    expect(head).toMatchObject({ status: 200, text: '' })
    expect(head.headers).toMatchObject(PAGE_HEADERS)
    expect((await ask(port, { path: '/' })).text).toBe(INDEX)
  })

  it('is no answer to programs, to other methods, or below the paths of the API', async () => {
    expect(await ask(port, { path: '/executions' })).toMatchObject({ status: 404 })
    expect(await ask(port, { method: 'POST', path: '/executions', headers: HTML })).toMatchObject({
      status: 404,
    })
    expect(await ask(port, { method: 'POST', path: '/', headers: HTML })).toMatchObject({ status: 405 })
    for (const address of [
      '/v1/nothing',
      '/ui/nothing',
      '/mcp/nothing',
      '/assets/nothing',
      '/healthz/nothing',
    ]) {
      const reply = await ask(port, { path: address, headers: HTML })
      expect([address, reply.status, reply.json?.error?.code]).toEqual([address, 404, 'not_found'])
    }
  })
})

describe('assets', () => {
  it('are kept by browsers for ever, because their names change with their content', async () => {
    for (const [name, type] of [
      ['app-1a2b3c4d.js', 'application/javascript; charset=utf-8'],
      ['app-1a2b3c4d.css', 'text/css; charset=utf-8'],
    ]) {
      const reply = await ask(port, { path: `/assets/${name}` })
      expect(reply.status).toBe(200)
      expect(reply.headers).toMatchObject({
        ...PAGE_HEADERS,
        'content-type': type,
        'cache-control': 'public, max-age=31536000, immutable',
      })
    }
  })

  it('are sent compressed, as the build made them, to who takes that', async () => {
    const headers = { 'accept-encoding': 'gzip' }
    const response = await fetch(`http://127.0.0.1:${port}/assets/app-1a2b3c4d.js`, { headers })
    expect(response.headers.get('content-encoding')).toBe('gzip')
    expect(response.headers.get('vary')).toMatch(/accept-encoding/i)
    expect(response.headers.get('content-type')).toBe('application/javascript; charset=utf-8')
    expect(await response.text()).toBe(SCRIPT)
    const plain = await ask(port, { path: '/assets/app-1a2b3c4d.js' })
    expect([plain.headers['content-encoding'], plain.text]).toEqual([undefined, SCRIPT])
  })

  it.each([
    '/assets/',
    '/assets',
    '/assets/missing.js',
    '/assets/../index.html',
    '/assets/../../outside.txt',
    '/assets/..%2f..%2foutside.txt',
    '/assets/%2e%2e/%2e%2e/outside.txt',
    '/assets/..%5c..%5coutside.txt',
    '/assets//etc/passwd',
    '/assets/%2fetc%2fpasswd',
    '/assets/./app-1a2b3c4d.js/',
    '/assets/.git/config',
    '/assets/%2egit/config',
    '/assets/../.stamp',
    '/.stamp',
    '/assets/app-1a2b3c4d.js%00.css',
    '/assets/%zz',
  ])('do not include %s', async (address) => {
    const { status, text, headers } = await ask(port, { path: address })
    expect([400, 404]).toContain(status)
    expect(text).not.toContain('secret')
    expect(text).not.toContain(folder)
    // A refusal must not stay in a cache.
    expect(headers['cache-control']).toBe('no-store')
  })
})

describe('the API', () => {
  it('keeps its own headers everywhere else', async () => {
    for (const address of ['/v1/executions', '/ui/session', '/healthz', '/openapi.json', '/nothing']) {
      const { headers } = await ask(port, { path: address, headers: { accept: '*/*' } })
      expect([address, headers['content-security-policy']]).toEqual([
        address,
        "default-src 'none'; frame-ancestors 'none'; sandbox",
      ])
      expect(headers).toMatchObject({
        'cache-control': 'no-store',
        'cross-origin-resource-policy': 'same-origin',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
      })
      expect(headers['permissions-policy']).toBeUndefined()
    }
    const docs = await ask(port, { path: '/docs', headers: HTML })
    expect(docs.headers['content-security-policy']).toContain("style-src 'self' 'unsafe-inline'")
  })
})

describe('without a build', () => {
  it('/ says how to get one, the API works, and a later build is served at once', async () => {
    const later = path.join(folder, 'later')
    const at = await listen(await scene.another({}, { dashboardDir: later }))
    for (const address of ['/', '/executions']) {
      const reply = await ask(at, { path: address, headers: HTML })
      expect(reply.status).toBe(503)
      expect(reply.headers).toMatchObject({ ...PAGE_HEADERS, 'cache-control': 'no-store' })
      expect(reply.text).toContain('npm run dashboard')
      expect(reply.text).not.toMatch(/<script|<style|style=/)
    }
    expect((await ask(at, { path: '/assets/app-1a2b3c4d.js' })).status).toBe(404)
    expect((await ask(at, { path: '/v1/executions', headers: scene.acme })).status).toBe(200)
    await mkdir(path.join(later, 'assets'), { recursive: true })
    await writeFile(path.join(later, 'index.html'), INDEX)
    await writeFile(path.join(later, 'assets/app-1a2b3c4d.js'), SCRIPT)
    expect(await ask(at, { path: '/', headers: HTML })).toMatchObject({ status: 200, text: INDEX })
    expect((await ask(at, { path: '/assets/app-1a2b3c4d.js' })).text).toBe(SCRIPT)
  })
})
