/** The queue page and the figures of the last hour: what each tenant gets and is due, and who is next. */
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { ExecutionId, ExecutionRequest, Operations } from '@cofferdam/client'
import { needs } from '@cofferdam/embedded/needs'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, vi } from 'vitest'
import { cost as costWords } from '../../apps/dashboard/src/words/figures.ts'
import { LOOKS } from './looks.ts'
import { openUiScene, type Scene } from './scene.ts'

const browser = needs('chromium', 'process')
const SOON = { timeout: 60_000, interval: 100 }
/** More tenants than one answer of the API may list (500). */
const CROWD = 520
let scene: Scene

const request = (tenant: string, source: string): ExecutionRequest => ({
  tenant_id: tenant,
  agent_id: 'analyst',
  program: { type: 'script', language: 'python', source },
  limits: { hard_timeout_ms: 600_000 },
})
const SLEEP = 'import time\ntime.sleep(300)'
const put = async (tenant: string, count: number): Promise<ExecutionId[]> => {
  const all = Array.from({ length: count }, () => scene.client.enqueue(request(tenant, SLEEP)))
  return (await Promise.all(all)).map(({ execution_id: id }) => id)
}

/** Tenants of the shown rows, from the top. */
const tenantsOf = (page: Page) => page.locator('.tenants [data-row-link]').allTextContents()
const rowOf = (page: Page, tenant: string) =>
  page.locator('.tenants tbody tr').filter({ has: page.getByRole('link', { name: tenant, exact: true }) })
const orderOf = async (sort: NonNullable<Operations['listQueueTenants']['query']['sort']>) =>
  (await scene.client.fleet.queueTenants({ sort })).tenants.map(({ tenant_id: id }) => id)

browser.describe('the queue and the last hour', () => {
  beforeAll(async () => {
    scene = await openUiScene({ workers: false })
    const config = path.join(scene.fleet.dataDir, 'cofferdam.config.yaml')
    await writeFile(config, 'prices:\n  process: {call: 0.001, cpu_second: 0.01, gb_second: 0.0001}\n')
    const policy = { min_isolation: 'none' } as const
    const caps = { tenant_daily: 100_000, agent_hourly: 100_000 }
    await scene.fleet.createTenant('small', { policy, caps: { ...caps, concurrency: 1 } })
    await scene.fleet.createTenant('zeta', { policy, caps })
    const process = { COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '4', COFFERDAM_CONFIG: config }
    await scene.fleet.runWorker(process)
  })
  afterAll(() => scene?.[Symbol.asyncDispose]())

  browser.it.each(LOOKS)('say that nothing waits and nothing ended, at %d px', async (width, scheme) => {
    await using seen = await scene.open('/queue', { width, scheme })
    const { page } = seen
    await page.getByText('Nothing waits or runs.').waitFor()
    await page.getByRole('cell', { name: 'interactive' }).waitFor()
    await seen.expectSound()
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Overview' }).click()
    await page.getByText('Nothing ended in the last hour.').waitFor()
    await seen.expectSound()
    seen.expectSilent()
  })

  browser.it('count the endings of the last hour by kind, their waits and the cost of today', async () => {
    const programs = ['print(1)', 'print(2)', 'print(3)', 'raise SystemExit(1)']
    await Promise.all(
      programs.map((source) => scene.client.run(request('acme', source), { timeoutMs: 120_000 })),
    )
    await scene.client.run(request('globex', 'print(1)'), { timeoutMs: 120_000 })
    const stats = await scene.client.fleet.stats({ group_by: 'ending' })
    const cost = stats.total.cost.reduce<number>((sum, one) => sum + (one ?? 0), 0)
    expect(cost).toBeGreaterThan(0)
    for (const [width, scheme] of LOOKS) {
      await using seen = await scene.open('/', { width, scheme })
      const { page } = seen
      const panel = page.getByRole('region', { name: 'Last 60 minutes' })
      await panel.getByText('5 attempts ended, of all tenants').waitFor()
      expect(await panel.locator('.legend').first().locator('li').allTextContents()).toEqual([
        'Succeeded 4',
        'Failed 1',
      ])
      const columns = await panel.locator('svg title').allTextContents()
      expect(columns.join()).toMatch(/^\d\d:\d\d UTC: (Succeeded|Failed) \d/)
      expect(await panel.locator('.line-p50').getAttribute('d')).toMatch(/^M[\d.]+ [\d.]+h4/)
      const card = page.locator('.figure-card').filter({ hasText: 'Cost today' })
      await expect.poll(() => card.locator('.figure-value').innerText(), SOON).toBe(costWords(cost))
      await seen.expectSound()
      await panel.getByRole('link', { name: 'Failed' }).click()
      await expect.poll(() => page.locator('tbody [data-row-link]').count(), SOON).toBe(1)
      seen.expectSilent()
    }
    await using one = await scene.open('/?tenant=globex')
    await one.page.getByText('1 attempt ended, of globex').waitFor()
  })

  browser.it('show who is next, what each gets, and what holds a tenant back, in every order', async () => {
    const ids = await put('small', 3)
    await vi.waitFor(async () => {
      const { tenants } = await scene.client.fleet.queueTenants()
      expect(tenants).toMatchObject([{ tenant_id: 'small', running: 1, waiting: 2 }])
    }, SOON)
    ids.push(...(await put('globex', 6)))
    // Wait until some executions of `globex` run. Otherwise the cap of 0 could end them all, and the page
    // would not show the tenant.
    await vi.waitFor(async () => {
      const { tenants } = await scene.client.fleet.queueTenants()
      expect(tenants.find(({ tenant_id: id }) => id === 'globex')?.running).toBeGreaterThan(0)
    }, SOON)
    await scene.client.tenants.changeCaps('globex', { tenant_daily: 0 })
    ids.push(...(await put('zeta', 4)))
    for (const [width, scheme] of LOOKS) {
      await using seen = await scene.open('/queue?tenant=zeta', { width, scheme })
      const { page } = seen
      await rowOf(page, 'small').getByText('At its concurrency').waitFor()
      await rowOf(page, 'globex').getByText('Stopped: a cap is 0').waitFor()
      await rowOf(page, 'zeta').and(page.locator('.chosen')).waitFor()
      await expect.poll(() => rowOf(page, 'globex').locator('.bar-run, .bar-held').count(), SOON).toBe(1)
      const small = await rowOf(page, 'small').innerText()
      expect(small.replaceAll(/\s+/g, ' ')).toContain('1 of 1')
      expect(small).toMatch(/[\d.]+ % of 33 % due/)
      await seen.expectSound()
      for (const [words, sort] of [
        ['Most waiting', 'waiting'],
        ['Largest share', 'share'],
        ['Next', 'next'],
      ] as const) {
        await page.getByRole('navigation', { name: 'Order' }).getByRole('link', { name: words }).click()
        await vi.waitFor(async () => expect(await tenantsOf(page)).toEqual(await orderOf(sort)), SOON)
        expect(new URL(page.url()).searchParams.get('sort')).toBe(sort === 'next' ? null : sort)
      }
      await page.goBack()
      await expect.poll(() => new URL(page.url()).searchParams.get('sort'), SOON).toBe('share')
      // The keys do nothing until the rows of this order are there, so press them again and again.
      await vi.waitFor(async () => {
        await page.keyboard.press('j')
        await page.keyboard.press('Enter')
        expect(new URL(page.url()).pathname).toBe('/executions')
      }, SOON)
      await page.getByRole('heading', { level: 1, name: 'Executions' }).waitFor()
      seen.expectSilent()
    }
    // Cancel everything, because the worker waits for running programs when it stops.
    await Promise.all(ids.map((id) => scene.client.cancel(id)))
  })

  browser.it('are for operators alone', async () => {
    await using seen = await scene.open('/queue', { as: scene.keys.acme })
    await seen.page.getByText('There is no page at this address.').waitFor()
  })
})

browser.describe('the queue without a worker', () => {
  beforeAll(async () => {
    scene = await openUiScene({ workers: false })
  })
  afterAll(() => scene?.[Symbol.asyncDispose]())

  browser.inLongTier(
    'holds a crowd of tenants, stands still when told to, and outlasts a lost connection',
    async () => {
      for (let from = 0; from < CROWD; from += 40)
        await Promise.all(
          Array.from({ length: 40 }, (_, n) => scene.fleet.client.enqueue(request(`crowd-${from + n}`, '1'))),
        )
      await using seen = await scene.open('/executions')
      const { page } = seen
      await page.getByRole('heading', { level: 1, name: 'Executions' }).waitFor()
      await page.context().setOffline(true)
      await page.keyboard.press('g')
      await page.keyboard.press('q')
      await page.getByRole('alert').getByText('The server cannot be reached.').first().waitFor()
      await seen.expectSound()
      await page.context().setOffline(false)
      await page.getByRole('button', { name: 'Try again' }).last().click()
      await page.getByText(`The first 100 of ${CROWD} tenants in this order`).waitFor()
      // axe takes more than a minute for 500 rows. They are like the first 100, so only these are checked.
      await page.getByRole('button', { name: 'Hold still' }).click()
      await page.getByText('held still, read').waitFor()
      await seen.expectSound()
      await page.setViewportSize({ width: 390, height: 844 })
      await seen.expectSound()
      await page.getByRole('link', { name: 'Show 500' }).click()
      await expect.poll(async () => (await tenantsOf(page)).length, SOON).toBe(500)
      expect(new URL(page.url()).searchParams.get('rows')).toBe('500')
      await page.context().setOffline(true)
      await page.getByRole('button', { name: 'Go on' }).click()
      await page.getByText('Not up to date: The server cannot be reached.').first().waitFor()
      expect(await tenantsOf(page)).toHaveLength(500)
      await page.context().setOffline(false)
      await page.getByText('Not up to date').first().waitFor({ state: 'detached' })
      seen.expectSilent()
    },
  )
})
