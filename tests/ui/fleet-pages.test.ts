/** The pages about the fleet: overview, backends, sessions with their files, routines, audit. */
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import type { ExecutionRequest } from '@cofferdam/client'
import { needs } from '@cofferdam/embedded/needs'
import { connectRedis } from '@cofferdam/queue'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { LOOKS } from './looks.ts'
import { buildPages, openUiScene, type Scene } from './scene.ts'

const browser = needs('chromium', 'process-namespaces')
const SOON = { timeout: 60_000, interval: 100 }
let scene: Scene

const request = (source: string, more: Partial<ExecutionRequest> = {}): ExecutionRequest => ({
  tenant_id: 'acme',
  agent_id: 'analyst',
  program: { type: 'script', language: 'python', source },
  ...more,
})

/**
 * Adds the report of another worker. It says the same of each backend as the first worker's report, and
 * `more`.
 */
async function addReport(worker: string, more: object): Promise<void> {
  const redis = connectRedis(scene.fleet.redisUrl, 'worker')
  try {
    const [said = ''] = Object.values(await redis.hgetall('{cofferdam}:backends'))
    const { backends } = JSON.parse(said) as { backends: object[] }
    const report = { at_ms: Date.now(), backends: backends.map((one) => ({ ...one, ...more })) }
    await redis.hset('{cofferdam}:backends', worker, JSON.stringify(report))
  } finally {
    redis.disconnect()
  }
}

it('the pages have at most 60,000 bytes of scripts and 10,000 of styles, compressed', async () => {
  const dist = await buildPages()
  const folder = path.join(dist, 'assets')
  const names = (await readdir(folder)).filter((name) => !/\.(br|gz)$/.test(name))
  const bytesOf = async (ending: string): Promise<number> => {
    const named = names.filter((name) => name.endsWith(ending))
    const contents = await Promise.all(named.map((name) => readFile(path.join(folder, name))))
    return contents.reduce((all, content) => all + gzipSync(content, { level: 9 }).byteLength, 0)
  }
  const [scripts, styles] = [await bytesOf('.js'), await bytesOf('.css')]
  expect(scripts).toBeGreaterThan(10_000)
  expect(scripts).toBeLessThanOrEqual(60_000)
  expect(styles).toBeGreaterThan(1000)
  expect(styles).toBeLessThanOrEqual(10_000)
  expect(names.filter((name) => !/\.(js|css)$/.test(name))).toEqual([])
  const page = await readFile(path.join(dist, 'index.html'), 'utf8')
  expect(page).not.toMatch(/https?:|<style|style=|<script>|\son\w+=/)
})

browser.describe('the pages about the fleet', () => {
  beforeAll(async () => {
    scene = await openUiScene()
    const source = `
import os
open('notes.txt', 'w').write('x' * 5000)
os.makedirs('out/deep')
open('out/deep/a&b', 'w')
`
    await scene.client.run(request(source, { session: { key: 'notebook' } }), { timeoutMs: 120_000 })
    await scene.client.routines.create({
      name: 'Nightly <b>report</b>',
      request: request('print(1)'),
      schedule: { cron: '30 2 * * *', time_zone: 'Europe/Berlin' },
    })
  })
  afterAll(() => scene?.[Symbol.asyncDispose]())

  browser.it.each(LOOKS)('are sound at %d px in %s, and each is one click away', async (width, scheme) => {
    await using seen = await scene.open('/?tenant=acme', { width, scheme })
    const { page } = seen
    const visit = async (name: string, sign: string): Promise<void> => {
      await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name }).click()
      await page.getByRole('heading', { level: 1, name }).waitFor()
      await page.getByText(sign).first().waitFor()
      await seen.expectSound()
      expect(new URL(page.url()).searchParams.get('tenant')).toBe('acme')
    }
    await visit('Overview', 'Needs attention')
    await visit('Sessions', 'notebook')
    await visit('Backends', 'Works')
    await visit('Routines', 'every day at 02:30, Europe/Berlin')
    await visit('Audit', 'Succeeded')
    seen.expectSilent()
  })

  browser.it('list the files of a session, download one, and end it', async () => {
    await using seen = await scene.open('/sessions?tenant=acme')
    const { page } = seen
    await page.getByRole('link', { name: 'notebook' }).click()
    await page.getByRole('button', { name: 'List the files' }).click()
    await page.getByRole('link', { name: 'a&b' }).waitFor()
    await seen.expectSound()
    const download = page.waitForEvent('download')
    await page.getByRole('link', { name: 'notes.txt' }).click()
    expect(await readFile(await (await download).path(), 'utf8')).toBe('x'.repeat(5000))
    await page.getByRole('button', { name: 'End', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'End the session' }).click()
    await page.getByText('No session has a sandbox now.').waitFor()
    seen.expectSilent()
  })

  browser.it('show a tenant nothing of another one, whatever address it opens', async () => {
    const source = "open('secret.csv', 'w').write('word\\nxyzzy')\nprint('xyzzy')"
    const more = { artifacts: ['*.csv'], session: { key: 'private' }, user_id: 'xyzzy' }
    const { execution_id: id } = await scene.client.run(request(source, more), { timeoutMs: 120_000 })
    const { key } = await scene.fleet.store.keys.create({ tenant_id: 'globex' }, 'test')
    const routines = await Array.fromAsync(scene.client.routines.list({ tenant_id: 'acme' }))
    const routine = `/routines/${routines[0]?.routine_id}`
    await using seen = await scene.open('/executions', { as: key })
    const { page } = seen
    await page.getByText('Nothing has run yet.').waitFor()
    const answers: [string, number][] = []
    page.on('response', (answer) => {
      const { pathname, search } = new URL(answer.url())
      if (pathname.startsWith('/v1/')) answers.push([pathname + search, answer.status()])
    })
    const visit = async (path: string): Promise<void> => {
      // Leave the previous page first, so that its requests are not counted.
      await page.goto('about:blank')
      answers.length = 0
      await page.goto(scene.url + path)
    }
    const holds = async (path: string) => {
      expect([path, await page.content()]).toEqual([path, expect.not.stringMatching(/xyzzy|Nightly/)])
      return answers.filter(([, status]) => status !== 403 && status !== 404)
    }
    for (const path of [
      `/executions/${id}`,
      '/executions?tenant=acme',
      '/tenants/acme',
      '/sessions/process/private?tenant=acme',
      routine,
    ]) {
      await visit(path)
      await page.getByRole('alert').first().waitFor()
      expect([path, answers.length > 0, await holds(path)]).toEqual([path, true, []])
    }
    // Some pages ignore the tenant in the address, and show the only one that the key may see: its own.
    for (const [path, sign] of [
      ['/sessions?tenant=acme', 'No session has a sandbox now.'],
      ['/routines?tenant=acme', 'There are no routines.'],
      ['/audit?tenant=acme', 'No attempt matches.'],
    ] as const) {
      await visit(path)
      await page.getByRole('alert').or(page.getByText(sign)).first().waitFor()
      expect([path, (await holds(path)).filter(([asked]) => asked.includes('acme'))]).toEqual([path, []])
    }
    // A tenant finds no pages of operators, and the browser asks the API for nothing of them.
    for (const path of ['/queue', '/unknown']) {
      await visit(path)
      await page.getByText('There is no page at this address.').waitFor()
      expect([path, answers]).toEqual([path, []])
    }
    const files = ['/artifacts/secret.csv', '/output/stdout', '/events', '/why', '/trace'].map(
      (file) => `/v1/executions/${id}${file}`,
    )
    const statuses = (by: typeof page) =>
      by.evaluate<number[]>(
        `Promise.all(${JSON.stringify(files)}.map((file) => fetch(file).then(({ status }) => status)))`,
      )
    expect(await statuses(page)).toEqual(files.map(() => 404))
    // The tenant that owns the execution sees its page and its files.
    await using own = await scene.open(`/executions/${id}`, { as: scene.keys.acme })
    await own.page.getByRole('cell', { name: 'xyzzy' }).waitFor()
    expect(new Set(await statuses(own.page))).toEqual(new Set([200]))
  })

  browser.it('test a backend, and run a routine now', async () => {
    await using seen = await scene.open('/backends')
    const { page } = seen
    expect(await page.getByRole('button', { name: 'Run a test' }).isDisabled()).toBe(true)
    await page.goto(`${scene.url}/backends?tenant=acme`)
    await page.getByRole('button', { name: 'Run a test' }).click()
    await page.locator('.test-answer').getByText('Succeeded').waitFor()
    await page.getByText(/^\d+ warm sandbox(es)?/).waitFor()
    await addReport('wrk_resting', {
      circuit: 'open',
      pool: { idle: 1, taken_warm: 1200, taken_cold: 34, warm_failed: 2 },
    })
    await page.getByText('Circuit open: its last sandboxes did not open.').waitFor()
    await page.getByText('1 warm sandbox · 1,200 of 1,234 started warm · 2 failed').waitFor()
    await seen.expectSound()
    await page.goto(`${scene.url}/routines`)
    await page.getByRole('link', { name: 'Nightly <b>report</b>' }).click()
    await page.getByRole('button', { name: 'Run now' }).click()
    await page.getByRole('cell', { name: 'enqueued' }).waitFor()
    await page.getByRole('button', { name: 'Disable' }).click()
    await page.getByRole('button', { name: 'Enable' }).waitFor()
    await seen.expectSound()
    seen.expectSilent()
  })

  browser.it('say what needs attention when the last worker is gone', async () => {
    await using seen = await scene.open('/')
    const { page } = seen
    await page.getByRole('heading', { name: 'Needs attention' }).waitFor()
    await scene.fleet.stopWorkers()
    await page.getByText('No worker has a heartbeat: nothing can run.').waitFor()
    await expect.poll(() => page.getByRole('alert').count(), SOON).toBe(0)
    await seen.expectSound()
    seen.expectSilent()
  })
})
