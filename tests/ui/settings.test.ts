/** The settings page, and what it sets: colours, density and times of this browser, kept over a reload. */
import type { ExecutionRequest } from '@cofferdam/client'
import { needs } from '@cofferdam/embedded/needs'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import { LOOKS } from './looks.ts'
import { openUiScene, type Scene } from './scene.ts'

const browser = needs('chromium', 'process')
const SOON = { timeout: 60_000, interval: 50 }
const JAEGER = 'https://traces.example.com/jaeger'
let scene: Scene

const request = (source: string): ExecutionRequest => ({
  tenant_id: 'acme',
  agent_id: 'analyst',
  program: { type: 'script', language: 'python', source },
})

/** Chooses an option of a group of buttons. */
const choose = (page: Page, group: string, option: string): Promise<void> =>
  page.getByRole('group', { name: group }).getByRole('button', { name: option }).click()

const groundOf = (page: Page): Promise<string> =>
  page.evaluate('getComputedStyle(document.body).backgroundColor')
const LIGHT = 'rgb(245, 246, 248)'
const DARK = 'rgb(14, 17, 22)'

browser.describe('the settings', () => {
  beforeAll(async () => {
    scene = await openUiScene({ api: { COFFERDAM_JAEGER_URL: `${JAEGER}/` } })
  })
  afterAll(() => scene?.[Symbol.asyncDispose]())

  browser.it.each(LOOKS)('are sound at %d px in %s, in both densities and schemes', async (width, scheme) => {
    await using seen = await scene.open('/settings', { as: scene.keys.readOnly, width, scheme })
    const { page } = seen
    await page.getByRole('main').getByText('read only', { exact: true }).waitFor()
    await page.getByText('operator, all tenants').waitFor()
    for (const density of ['Compact', 'Comfortable'])
      for (const colours of ['Light', 'Dark']) {
        await choose(page, 'Density', density)
        await choose(page, 'Colours', colours)
        expect(await groundOf(page)).toBe(colours === 'Dark' ? DARK : LIGHT)
        await seen.expectSound()
      }
    await page.getByRole('main').getByRole('button', { name: 'Keys' }).click()
    await page.getByRole('dialog', { name: 'Keys' }).getByText('Settings').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('main').getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('API key').waitFor()
    expect(await groundOf(page)).toBe(DARK)
    seen.expectSilent()
  })

  browser.it('hold after a reload, before the first paint, and are all that the browser keeps', async () => {
    for (const text of ['1', '2', '3']) await scene.client.run(request(text), { timeoutMs: 120_000 })
    await using seen = await scene.open('/settings', { scheme: 'light' })
    const { page } = seen
    await choose(page, 'Colours', 'Dark')
    await choose(page, 'Density', 'Compact')
    const kept = await page.evaluate('[{ ...localStorage }, sessionStorage.length, document.cookie]')
    expect(kept).toEqual([{ 'cofferdam.scheme': 'dark', 'cofferdam.density': 'compact' }, 0, ''])

    // The styles are there and the program of the pages is not, as at a first paint on a slow line.
    let release = (): void => undefined
    const held = new Promise<void>((resolve) => (release = resolve))
    await page.route(/\/assets\/index-.*\.js$/, async (route) => {
      await held
      await route.continue()
    })
    await page.reload({ waitUntil: 'commit' })
    await page.locator('#app').waitFor({ state: 'attached' })
    await expect.poll(() => page.evaluate('document.styleSheets.length'), SOON).toBe(1)
    expect([await groundOf(page), await page.locator('#app > *').count()]).toEqual([DARK, 0])
    release()
    await page.getByRole('button', { name: 'Dark', pressed: true }).waitFor()
    await page.getByRole('button', { name: 'Compact', pressed: true }).waitFor()
    expect(await groundOf(page)).toBe(DARK)
    // Compact rows still leave room for a finger.
    await page.getByRole('link', { name: 'Executions' }).click()
    await page.locator('[data-row-link]').first().waitFor()
    await seen.expectSound()
    await page.locator('[data-row-link]').first().click()
    await page.getByRole('heading', { name: 'Use and cost' }).waitFor()
    await seen.expectSound()
    await page.getByRole('link', { name: 'Settings' }).click()
    await choose(page, 'Colours', 'As the system')
    expect(await groundOf(page)).toBe(LIGHT)
    seen.expectSilent()
  })

  browser.it('ignore what another release or a person wrote into the browser', async () => {
    await using seen = await scene.open('/settings')
    const { page } = seen
    await page.getByRole('button', { name: 'UTC', pressed: true }).waitFor()
    await page.evaluate(`for (const name of ['scheme', 'density', 'zone'])
      localStorage.setItem('cofferdam.' + name, '<img src=x> ' + name)`)
    await page.reload()
    for (const name of ['As the system', 'Comfortable', 'UTC'])
      await page.getByRole('button', { name, exact: true, pressed: true }).waitFor()
    seen.expectSilent()
  })

  browser.inLongTier('show times in the zone of the browser, and keep the exact one in UTC', async () => {
    const { execution_id: id } = await scene.client.enqueue({ ...request('1'), delay_ms: 86_400_000 })
    const delayedUntil = async (): Promise<string> =>
      (await scene.client.executions.why(id)).facts.find(({ until }) => until !== undefined)?.until ?? ''
    const until = await delayedUntil()
    await using seen = await scene.open('/settings', { timeZone: 'Asia/Kathmandu' })
    const { page } = seen
    const nowLine = page.locator('.facts div').filter({ hasText: /^Now/ })
    await nowLine.getByText(/^\d{4}-\d\d-\d\d \d\d:\d\d UTC$/).waitFor()
    await choose(page, 'Times', 'This browser’s zone')
    await nowLine.getByText(/^\d{4}-\d\d-\d\d \d\d:\d\d UTC\+5:45$/).waitFor()
    await page.goto(`${scene.url}/executions/${id}`)
    const shown = page.locator(`time[datetime="${until}"]`)
    await shown.waitFor()
    const local = new Date(Date.parse(until) + 345 * 60_000).toISOString().slice(0, 16).replace('T', ' ')
    expect(await shown.getAttribute('title')).toBe(`${until}\n${local} UTC+5:45`)
    expect(await shown.innerText()).toMatch(/^in \d+ [hm]$/)
    // Two days after the delay ends, the page shows that day and time instead of a relative time.
    await page.clock.setFixedTime(Date.parse(until) + 172_800_000)
    await shown.filter({ hasText: local }).waitFor()
    await scene.client.cancel(id)
    seen.expectSilent()
  })

  browser.inLongTier('nothing moves for who asks for no motion', async () => {
    const { execution_id: id } = await scene.client.enqueue({
      ...request('import time\ntime.sleep(600)'),
      limits: { hard_timeout_ms: 900_000 },
    })
    const moving = (page: Page): Promise<number> => page.evaluate('document.getAnimations().length')
    const smooth = (page: Page): Promise<number> =>
      page.evaluate(`[...document.querySelectorAll('*')].filter((one) =>
        getComputedStyle(one).scrollBehavior === 'smooth' ||
        getComputedStyle(one).transitionDuration !== '0s').length`)
    for (const motion of ['no-preference', 'reduce'] as const) {
      await using seen = await scene.open(`/executions/${id}`, { motion })
      const { page } = seen
      await page.locator('.verdict').getByText('Running').waitFor()
      expect((await moving(page)) > 0).toBe(motion === 'no-preference')
      await page.getByRole('button', { name: 'Cancel' }).click()
      await page.getByRole('dialog').waitFor()
      expect((await moving(page)) > 0).toBe(motion === 'no-preference')
      expect(await smooth(page)).toBe(0)
      await page.keyboard.press('Escape')
      await page.getByRole('link', { name: 'Settings' }).click()
      await page.getByText(`as the system: ${motion === 'reduce' ? 'off' : 'on'}`).waitFor()
      seen.expectSilent()
    }
    await scene.client.cancel(id)
  })

  browser.it(
    'an execution leads operators to its trace in Jaeger, which learns nothing of the page',
    async () => {
      const result = await scene.client.run(request('print(1)'), { timeoutMs: 120_000 })
      expect(result.trace_id).toMatch(/^[0-9a-f]{32}$/)
      await using seen = await scene.open(`/executions/${result.execution_id}`)
      for (const name of ['Open in Jaeger', /^[0-9a-f]{12}… ↗$/]) {
        const link = seen.page.getByRole('link', { name })
        await link.waitFor()
        expect(await link.getAttribute('href')).toBe(`${JAEGER}/trace/${result.trace_id}`)
        expect(await link.getAttribute('rel')).toBe('noreferrer')
        expect(await link.getAttribute('target')).toBe('_blank')
      }
      await seen.expectSound()
      seen.expectSilent()
      await using tenant = await scene.open(`/executions/${result.execution_id}`, { as: scene.keys.acme })
      await tenant.page.getByRole('heading', { name: 'Use and cost' }).waitFor()
      expect(await tenant.page.getByRole('link', { name: /Jaeger|↗/ }).count()).toBe(0)
    },
  )
})
