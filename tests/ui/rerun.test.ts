/** Run again on the page of an execution: edits, what cannot be run again and why, and the comparison. */
import { rerunEditSchema } from '@cofferdam/contract'
import type { ExecutionId, ExecutionRequest, Rerun } from '@cofferdam/client'
import { needs } from '@cofferdam/embedded/needs'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { LIMIT_FIELDS } from '../../apps/dashboard/src/pages/execution/rerun/edit-of.ts'
import { LOOKS } from './looks.ts'
import { openUiScene, type Scene } from './scene.ts'

const browser = needs('chromium', 'process')
const SOON = { timeout: 60_000, interval: 100 }
let scene: Scene

const SOURCE = `
import json, sys
print('same line')
print('mode', ' '.join(sys.argv[1:]) or 'none')
open('report.json', 'w').write(json.dumps(sys.argv[1:]))
print('<b onclick=alert(1)>' + '\\x1b[31mred\\x1b[0m', len(sys.argv), file=sys.stderr)
sys.exit(3 if 'strict' in sys.argv else 0)
`
const request = (more: Partial<ExecutionRequest> = {}): ExecutionRequest => ({
  tenant_id: 'acme',
  agent_id: 'analyst',
  program: { type: 'script', language: 'python', source: SOURCE, argv: ['strict'] },
  artifacts: ['*.json'],
  ...more,
})
const run = (one: ExecutionRequest) => scene.client.run(one, { timeoutMs: 120_000 })

const dialogOf = (page: Page) => page.getByRole('dialog', { name: 'Run again' })
const openDialog = async (page: Page) => {
  await page.getByRole('button', { name: 'Run again' }).click()
  await dialogOf(page).waitFor()
  return dialogOf(page)
}
const submit = (page: Page) => dialogOf(page).getByRole('button', { name: 'Run again' }).click()

it.each(LIMIT_FIELDS)('the field of $name takes what the API takes', ({ name, times, min, max }) => {
  const accepts = (value: number): boolean =>
    rerunEditSchema.safeParse({ limits: { [name]: value * times } }).success
  expect([min, max].map(accepts)).toEqual([true, true])
  expect([min / 2, max * 2].map(accepts)).toEqual([false, false])
})

browser.describe('running again', () => {
  beforeAll(async () => {
    scene = await openUiScene()
    await scene.client.tenants.changePolicy('acme', { keep_program: 'always' })
  })
  afterAll(() => scene?.[Symbol.asyncDispose]())

  browser.it.each(LOOKS)(
    'takes other arguments and limits, leads to the new one, and compares, at %d px',
    async (width, scheme) => {
      const first = await run(request())
      expect(first.exit_code).toBe(3)
      await using seen = await scene.open(`/executions/${first.execution_id}?tenant=acme`, { width, scheme })
      const { page } = seen
      const dialog = await openDialog(page)
      await dialog.getByLabel('Other arguments').check()
      await dialog.getByLabel('Arguments', { exact: true }).fill('lenient\n<i>x</i>\n')
      await dialog.getByLabel('Memory, MiB').fill('128')
      await dialog.getByLabel('Hard deadline, s').fill('20')
      await dialog.getByLabel('Backend').selectOption('process')
      await seen.expectSound()
      await submit(page)
      await dialog.getByText('It was accepted as').waitFor()
      await dialog.getByRole('link', { name: 'Open the new execution' }).click()
      await expect.poll(() => page.url(), SOON).not.toContain(first.execution_id)
      const id = new URL(page.url()).pathname.split('/').at(-1) as ExecutionId
      expect(new URL(page.url()).search).toBe('?tenant=acme')
      const again = await scene.client.wait(id, { timeoutMs: 120_000 })
      expect(again).toMatchObject({ exit_code: 0, usage: {} })
      expect(again?.stdout).toContain('mode lenient <i>x</i>')
      expect(await scene.client.get(id)).toMatchObject({ rerun_of: first.execution_id })

      const panel = page.getByRole('region', { name: 'Compared with the first run' })
      await panel.getByText('The results differ in').waitFor()
      const comparison = await scene.client.executions.compare(id)
      expect(comparison.differences).toEqual(['ending', 'exit_code', 'stdout', 'stderr', 'artifacts'])
      expect(await panel.locator('.badge').allTextContents()).toEqual(
        comparison.differences.map((name) => name.replace('_', ' ')),
      )
      const changed = (name: 'ins' | 'del') => panel.locator(name).allTextContents()
      expect(await changed('del')).toEqual(['- mode strict\n', '- <b onclick=alert(1)>red 2\n'])
      expect(await changed('ins')).toEqual(['+ mode lenient <i>x</i>\n', '+ <b onclick=alert(1)>red 3\n'])
      expect(await panel.getByRole('row', { name: 'Exit code' }).locator('td').allTextContents()).toEqual([
        '3',
        '0',
      ])
      await panel.getByText('report.json').waitFor()
      await seen.expectSound()
      await panel.getByRole('link', { name: first.execution_id.slice(-8) }).click()
      await page.locator('.verdict').getByText('Failed').waitFor()
      expect(await page.getByText('Compared with the first run').count()).toBe(0)
      seen.expectSilent()
    },
  )

  browser.it('asks for the values of variables that were not kept', async () => {
    const source = 'import os\nprint(os.environ["TOKEN"], "MODE" in os.environ)'
    const first = await run(
      request({
        program: { type: 'script', language: 'python', source },
        env: { TOKEN: 'first', MODE: 'x' },
      }),
    )
    await using seen = await scene.open(`/executions/${first.execution_id}`)
    const { page } = seen
    const dialog = await openDialog(page)
    await submit(page)
    await dialog.getByText('Variables whose values were not kept').waitFor()
    await dialog.getByLabel('TOKEN').fill('second')
    await seen.expectSound()
    await submit(page)
    await dialog.getByRole('button', { name: 'Stay here' }).click()
    const link = page.locator('.verdict').getByText('run again as').getByRole('link')
    const id = (await link.getAttribute('title')) as ExecutionId
    expect(await scene.client.wait(id, { timeoutMs: 120_000 })).toMatchObject({ stdout: 'second False\n' })
    seen.expectSilent()
  })

  browser.inLongTier('names the setting that keeps the next program, to whoever can change it', async () => {
    const { execution_id: id } = await run(request({ tenant_id: 'globex' }))
    const key = (await scene.fleet.store.keys.create({ tenant_id: 'globex' }, 'test')).key
    for (const width of [1280, 390] as const) {
      await using seen = await scene.open(`/executions/${id}`, { width })
      const dialog = await openDialog(seen.page)
      await submit(seen.page)
      await dialog.getByText('cofferdam tenant set globex --keep-program errors', { exact: true }).waitFor()
      expect(await dialog.getByRole('alert').innerText()).toContain('keep_program never')
      await seen.expectSound()
      await dialog.getByRole('button', { name: 'Close', exact: true }).last().click()
      await dialog.waitFor({ state: 'detached' })
      seen.expectSilent()
    }
    await using tenant = await scene.open(`/executions/${id}`, { as: key })
    await openDialog(tenant.page)
    await submit(tenant.page)
    await dialogOf(tenant.page).getByText('An operator can set').waitFor()

    await using reader = await scene.open(`/executions/${id}`, { as: scene.keys.readOnly })
    await reader.page.locator('.verdict').getByText('Failed').waitFor()
    expect(await reader.page.getByRole('button', { name: 'Run again' }).count()).toBe(0)
  })

  browser.it('leaves one new execution if the first answer is lost', async () => {
    const first = await run(request())
    await using seen = await scene.open(`/executions/${first.execution_id}`)
    const { page } = seen
    const dialog = await openDialog(page)
    const lost: string[] = []
    // The API gets what the page sent, with the same key, but its answer never arrives.
    await page.route('**/rerun', async (route) => {
      const answer = await fetch(route.request().url(), {
        method: 'POST',
        headers: { authorization: `Bearer ${scene.keys.admin}`, 'content-type': 'application/json' },
        body: route.request().postData(),
      })
      lost.push(((await answer.json()) as Rerun).execution.execution_id)
      await route.abort()
    })
    await submit(page)
    await dialog.getByRole('alert').getByText('The server cannot be reached.').waitFor()
    await page.unroute('**/rerun')
    await submit(page)
    await dialog.getByText('It was accepted as').waitFor()
    expect(lost).toEqual([await dialog.locator('code').first().getAttribute('title')])
  })
})
