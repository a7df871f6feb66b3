/** The list of executions: what it shows, that nothing in it jumps, and that many can be cancelled. */
import type { ExecutionRequest } from '@cofferdam/client'
import { needs } from '@cofferdam/embedded/needs'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import { openUiScene, type Scene } from './scene.ts'

const browser = needs('chromium', 'process')
const SOON = { timeout: 60_000, interval: 100 }
let scene: Scene

const request = (source: string, more: Partial<ExecutionRequest> = {}): ExecutionRequest => ({
  tenant_id: 'acme',
  agent_id: 'analyst',
  program: { type: 'script', language: 'python', source },
  ...more,
})
const delayed = request('print(1)', { delay_ms: 3_600_000 })

/** IDs of the shown rows, from the top. */
const idsOf = (page: Page): Promise<string[]> =>
  page
    .locator('[data-row-link]')
    .evaluateAll((links) => links.map((link) => link.getAttribute('title') ?? ''))

const rowOf = (page: Page, id: string) => page.locator('tbody tr').filter({ hasText: id.slice(-8) })

browser.describe('the list of executions', () => {
  beforeAll(async () => {
    scene = await openUiScene()
    const requests = [
      ...Array.from({ length: 52 }, (_, index) => request(`print(${index})`, { agent_id: 'counter' })),
      request('raise SystemExit(3)', { tenant_id: 'globex', run_id: 'run-7' }),
    ]
    const ran = await Promise.all(requests.map((one) => scene.client.run(one, { timeoutMs: 120_000 })))
    expect(ran.filter(({ ok }) => !ok)).toHaveLength(1)
  })
  afterAll(() => scene?.[Symbol.asyncDispose]())

  browser.it('gathers new rows behind a button, changes known ones in place, and catches up', async () => {
    await using seen = await scene.open('/executions?tenant=acme')
    const { page } = seen
    await page.locator('[data-row-link]').first().waitFor()
    const before = await idsOf(page)
    const { execution_id: id } = await scene.client.enqueue(delayed)
    await page.getByRole('button', { name: '1 new' }).waitFor()
    expect(await idsOf(page)).toEqual(before)
    await page.getByRole('button', { name: '1 new' }).click()
    expect(await idsOf(page)).toEqual([id, ...before])
    await rowOf(page, id).getByText('Delayed').waitFor()
    await scene.restartApi()
    await scene.client.cancel(id)
    await rowOf(page, id).getByText('Cancelled').waitFor()
    expect(await idsOf(page)).toEqual([id, ...before])
    await seen.expectSound()
    seen.expectSilent()
  })

  browser.it('keeps filters and pages in the address, and goes back through them', async () => {
    await using seen = await scene.open('/executions')
    const { page } = seen
    await page.getByLabel('Add a filter').selectOption('exit_status')
    await page.getByLabel('Outcome').selectOption('error')
    await expect.poll(() => idsOf(page), SOON).toHaveLength(1)
    expect(new URL(page.url()).search).toBe('?exit_status=error')
    await page.getByRole('link', { name: 'Remove the filter Outcome error' }).click()
    await page.getByRole('link', { name: 'Older' }).click()
    await page.getByRole('link', { name: 'Newest' }).waitFor()
    await expect.poll(async () => (await idsOf(page)).length, SOON).toBeLessThan(20)
    await page.goBack()
    await page.getByRole('link', { name: 'Newest' }).waitFor({ state: 'detached' })
    await page.goBack()
    await expect.poll(() => idsOf(page), SOON).toHaveLength(1)
    await page.reload()
    await expect.poll(() => idsOf(page), SOON).toHaveLength(1)
    seen.expectSilent()
  })

  browser.it('shows live executions with filters by what is known of them', async () => {
    const session = { key: 'notes', scope: 'files' as const }
    const waits = await scene.client.enqueue({ ...delayed, run_id: 'run-8', backend: 'process' })
    const limits = { soft_timeout_ms: 500_000, hard_timeout_ms: 510_000 }
    const long = { session, run_id: 'run-8', limits }
    const runs = await scene.client.enqueue(request('import time; time.sleep(500)', long))
    // The backend is known only once the execution starts. So wait for that, because the page shows later
    // matches only behind the button for new ones.
    const backendOf = async () => (await scene.client.get(runs.execution_id))?.backend
    await expect.poll(backendOf, SOON).toBe('process')
    await using seen = await scene.open('/executions?run_id=run-8&backend=process')
    const { page } = seen
    const both = [runs.execution_id, waits.execution_id]
    await rowOf(page, runs.execution_id).getByText('Running').waitFor()
    expect(await idsOf(page)).toEqual(both)
    await rowOf(page, waits.execution_id).getByText('process').waitFor()
    await page.getByLabel('Add a filter').selectOption('program_kind')
    await page.getByLabel('Kind').selectOption('script/python')
    await expect.poll(() => idsOf(page), SOON).toEqual(both)
    // The page of the session leads to what runs in it.
    await page.goto(`${scene.url}/sessions?tenant=acme`)
    await page.getByRole('link', { name: 'notes' }).click()
    await page.getByRole('link', { name: /^ses_/ }).click()
    await expect.poll(() => idsOf(page), SOON).toEqual([runs.execution_id])
    await page.getByRole('link', { name: 'Live', exact: true }).click()
    await rowOf(page, runs.execution_id).getByText('Running').waitFor()
    await seen.expectSound()
    for (const id of both) await scene.client.cancel(id)
    await rowOf(page, runs.execution_id).getByText('Cancelled').waitFor()
    await page.getByLabel('Add a filter').selectOption('ending')
    await page.getByLabel('Ending').selectOption('ok')
    await page.getByText('No execution matches.').waitFor()
    await page.getByText('Executions that still run have no ending to filter by.').waitFor()
    seen.expectSilent()
  })

  browser.it('is used by keys alone', async () => {
    await using seen = await scene.open('/executions?tenant=globex')
    const { page } = seen
    await expect.poll(() => idsOf(page), SOON).toHaveLength(1)
    const [id] = await idsOf(page)
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Keys' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.keyboard.press('j')
    await page.locator('[data-row-link]:focus').waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: id!.slice(-8) }).waitFor()
    await page.keyboard.press('g')
    await page.keyboard.press('e')
    await page.getByRole('heading', { level: 1, name: 'Executions' }).waitFor()
    expect(new URL(page.url()).search).toBe('?tenant=globex')
    await page.keyboard.press('/')
    await page.locator('#find:focus').waitFor()
    await page.keyboard.type(id!)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: id!.slice(-8) }).waitFor()
  })

  browser.it(
    'cancels what is selected: preview, reason, progress, and the audit names the actor',
    async () => {
      const ids = await Promise.all(
        Array.from({ length: 12 }, async () => (await scene.client.enqueue(delayed)).execution_id),
      )
      await using seen = await scene.open('/executions?status=live&tenant=acme', {
        width: 390,
        scheme: 'dark',
      })
      const { page } = seen
      await expect.poll(() => idsOf(page), SOON).toHaveLength(12)
      await seen.expectSound()
      for (const id of ids.slice(0, 11)) await page.getByLabel(`Select …${id.slice(-8)}`).check()
      await page.getByRole('button', { name: 'Cancel selected' }).click()
      const dialog = page.getByRole('dialog', { name: 'Cancel selected' })
      await dialog.getByText('11 executions that wait will not run.').waitFor()
      await dialog.getByLabel('Reason').fill('wrong input')
      await seen.expectSound()
      await dialog.getByRole('button', { name: 'Cancel selected' }).click()
      await dialog.getByText('11 executions cancelled').waitFor()
      await dialog.getByRole('button', { name: 'Close', exact: true }).last().click()
      const states = await Promise.all(ids.map((id) => scene.client.get(id)))
      expect(states.map((state) => state?.status)).toEqual([...Array(11).fill('ended'), 'delayed'])
      expect(states[0]?.result?.error_message).toContain('wrong input')
      await scene.client.cancel(ids[11]!)
    },
  )

  browser.it('shows that the API is away, and goes on by itself when it is back', async () => {
    // Nothing of earlier tests still arrives for this tenant.
    await using seen = await scene.open('/executions?tenant=globex')
    const { page } = seen
    await page.locator('[data-row-link]').first().waitFor()
    const dot = page.locator('.live-dot')
    await dot.getByText('Live', { exact: true }).waitFor()
    const before = await idsOf(page)
    await scene.restartApi(async () => {
      await dot.getByText('No connection').waitFor()
      await page.getByText('Not up to date').waitFor()
      expect(await idsOf(page)).toEqual(before)
    })
    const { execution_id: id } = await scene.client.enqueue({ ...delayed, tenant_id: 'globex' })
    await page.getByRole('button', { name: '1 new' }).click({ timeout: 60_000 })
    expect(await idsOf(page)).toEqual([id, ...before])
    await dot.getByText('Live', { exact: true }).waitFor()
    await page.getByText('Not up to date').waitFor({ state: 'detached' })
    await scene.client.cancel(id)
    await rowOf(page, id).getByText('Cancelled').waitFor()
    seen.expectSilent()
  })

  browser.it('says so when nothing matches, and when the API is away', async () => {
    await using seen = await scene.open('/executions?agent_id=nobody')
    const { page } = seen
    await page.getByText('No execution matches.').waitFor()
    await page.route('**/v1/**', (route) => route.abort())
    await page.getByText('Not up to date').waitFor()
    await page.getByText('No connection').waitFor()
    await page.unroute('**/v1/**')
    await page.getByText('Not up to date').waitFor({ state: 'detached' })
  })
})
