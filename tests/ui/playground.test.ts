/**
 * The playground: a program is written, run, followed, cancelled and copied. Nothing of it runs in the page.
 */
import { ISOLATIONS, LANGUAGES, limitFieldsSchema } from '@cofferdam/contract'
import type { ExecutionId } from '@cofferdam/client'
import { needs } from '@cofferdam/embedded/needs'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import * as form from '../../apps/dashboard/src/pages/playground/request-of.ts'
import { LOOKS } from './looks.ts'
import { openUiScene, type Scene } from './scene.ts'
import type { SeenPage } from './seen-page.ts'

const browser = needs('chromium', 'process')
const SOON = { timeout: 60_000, interval: 100 }
/** What a hostile person could put into every text. */
const ATTACK = `'"</textarea><img src=x onerror=alert(1)><script>alert(2)</script>\u202E\`$(id)\\`
const SLOW = "import time\nfor n in range(10000):\n  print('line', n, flush=True)\n  time.sleep(0.05)\n"
let scene: Scene

const editor = (page: Page) => page.getByRole('textbox', { name: 'Program' })
const request = (page: Page) => page.getByRole('form', { name: 'Request' })
const runButton = (page: Page) => request(page).getByRole('button', { name: 'Run', exact: true })
const screenOf = (page: Page) => page.getByRole('log', { name: 'Output of the program' })
const queryOf = (page: Page) => new URL(page.url()).searchParams
const runOf = (page: Page) => queryOf(page).get('run') as ExecutionId
/** Scrolls to the top first, because axe counts a control that the bar covers in part as too small. */
const expectSound = async (seen: SeenPage): Promise<void> => {
  await seen.page.evaluate('window.scrollTo(0, 0)')
  await seen.expectSound()
}
/** How many executions there are of the playground's agent. */
const countOf = async (agent: string): Promise<number> =>
  (await Array.fromAsync(scene.client.executions.list({ tenant_id: 'acme', agent_id: agent }))).length

it('the choices of the form are those of the API', () => {
  expect([...form.EXAMPLES.keys()]).toEqual(LANGUAGES)
  expect(form.ISOLATIONS).toEqual(ISOLATIONS)
})

it.each(form.LIMITS)('the field of $name takes what the API takes', ({ name, times, min, max }) => {
  const accepts = (value: number): boolean => limitFieldsSchema.safeParse({ [name]: value * times }).success
  expect([min, max, min / 2, max * 2].map(accepts)).toEqual([true, true, false, false])
})

browser.describe('the playground', () => {
  beforeAll(async () => {
    scene = await openUiScene()
  })
  afterAll(() => scene?.[Symbol.asyncDispose]())

  browser.it.each(LOOKS)(
    'runs a program and shows its run on the same page, at %d px in %s',
    async (width, scheme) => {
      await using seen = await scene.open('/playground', { width, scheme })
      const { page } = seen
      await page.getByText('Nothing ran yet.').waitFor()
      await expectSound(seen)
      await request(page).getByLabel('Tenant').fill('acme')
      await request(page).getByLabel('Backend').selectOption('process')
      await editor(page).fill(
        `import sys\nprint(${JSON.stringify(ATTACK)}, sys.argv[1:], input())\n{'x': [1]}`,
      )
      await page.getByText('Input and files').click()
      await request(page).getByLabel('Arguments').fill('a\n<b>\n')
      await request(page).getByLabel('Standard input').fill(ATTACK)
      await page.getByText('Limits').click()
      await request(page).getByLabel('Hard deadline, s').fill('20.5')
      await runButton(page).click()
      await page.getByText('Succeeded').first().waitFor()
      await expect.poll(() => screenOf(page).innerText(), SOON).toContain('<img src=x onerror=alert(1)>')
      expect(await screenOf(page).innerText()).toContain("['a', '<b>']")
      await page.getByRole('region', { name: 'Value' }).getByText('x').waitFor()
      await page.getByRole('region', { name: 'Use and cost' }).waitFor()
      expect(Object.fromEntries(queryOf(page))).toEqual({
        tenant: 'acme',
        backend: 'process',
        hard_timeout_ms: '20500',
        run: runOf(page),
      })
      const state = await scene.client.get(runOf(page))
      expect(state).toMatchObject({
        tenant_id: 'acme',
        agent_id: 'playground',
        result: { backend: 'process' },
      })
      expect(await page.locator('main script, main iframe, main img').count()).toBe(0)
      await expectSound(seen)
      const id = runOf(page)
      await page.getByRole('link', { name: 'Everything about it' }).click()
      await page.getByRole('heading', { level: 1, name: id.slice(-8) }).waitFor()
      seen.expectSilent()
    },
  )

  browser.it('is followed live, cancelled, and run again with edits; back shows the run before', async () => {
    await using seen = await scene.open('/playground?tenant=acme')
    const { page } = seen
    await editor(page).fill(SLOW)
    await runButton(page).click()
    await expect.poll(() => screenOf(page).innerText(), SOON).toContain('line 3\n')
    const first = runOf(page)
    expect(await scene.client.get(first)).toMatchObject({ status: 'running' })
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByText('Cancelled').first().waitFor()
    expect((await scene.client.wait(first))?.ending).toBe('cancelled')

    await page.getByLabel('Language').selectOption('bash')
    expect(await editor(page).inputValue()).toBe(SLOW)
    await editor(page).fill('echo second')
    await runButton(page).click()
    await expect.poll(() => screenOf(page).innerText(), SOON).toContain('second')
    expect(runOf(page)).not.toBe(first)
    await page.goBack()
    await page.getByText('Cancelled').first().waitFor()
    expect(runOf(page)).toBe(first)
    expect(await editor(page).inputValue()).toBe('echo second')
    seen.expectSilent()
  })

  browser.it('is used by keys alone, and Tab leaves the editor', async () => {
    await using seen = await scene.open('/playground?tenant=acme')
    const { page } = seen
    await editor(page).waitFor()
    await page.keyboard.press('g')
    await page.keyboard.press('e')
    await page.getByRole('heading', { level: 1, name: 'Executions' }).waitFor()
    await page.keyboard.press('g')
    await page.keyboard.press('p')
    await editor(page).waitFor()
    const focused = () =>
      page.evaluate<string>('document.activeElement?.name || document.activeElement?.textContent || ""')
    await page.getByLabel('Language').focus()
    const stops: string[] = []
    for (let step = 0; step < 5; step += 1) {
      await page.keyboard.press('Tab')
      stops.push(await focused())
    }
    expect(stops).toEqual(['Copy as', 'Run', 'program.source', 'tenant_id', 'agent_id'])
    await editor(page).focus()
    await page.keyboard.press('Control+A')
    await page.keyboard.type("print('by', 'keys')")
    await page.keyboard.press('Control+Enter')
    await expect.poll(() => screenOf(page).innerText(), SOON).toContain('by keys')
    const first = runOf(page)
    // Enter in a field of one line starts nothing. In the editor it begins a line.
    await request(page).getByLabel('Agent').focus()
    await page.keyboard.press('Enter')
    await editor(page).focus()
    await page.keyboard.press('Enter')
    expect(runOf(page)).toBe(first)
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.press('Enter')
    await expect.poll(() => runOf(page), SOON).not.toBe(first)
    // The menu opens, closes with Escape, and gives the focus back.
    await page.getByText('Copy as').focus()
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Copy as curl' }).waitFor()
    await page.keyboard.press('Tab')
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Copy as curl' }).waitFor({ state: 'hidden' })
    expect(await focused()).toBe('Copy as')
    seen.expectSilent()
  })

  browser.it('starts one execution for a double click, a held key, and a lost answer', async () => {
    await using seen = await scene.open('/playground?tenant=acme&agent_id=once')
    const { page } = seen
    await runButton(page).dblclick()
    await page.getByText('Succeeded').first().waitFor()
    // The second click of a slow double click, after the answer to the first.
    await page.mouse.down({ clickCount: 2 })
    await page.mouse.up({ clickCount: 2 })
    expect(await countOf('once')).toBe(1)
    await editor(page).focus()
    await page.keyboard.down('Control')
    for (let repeat = 0; repeat < 5; repeat += 1) await page.keyboard.down('Enter')
    await page.keyboard.up('Enter')
    await page.keyboard.up('Control')
    await expect.poll(() => countOf('once'), SOON).toBe(2)
    const first = runOf(page)

    const lost: string[] = []
    // The API gets what the page sent, with the same key, but its answer never arrives.
    await page.route('**/v1/executions', async (route) => {
      const answer = await fetch(route.request().url(), {
        method: 'POST',
        headers: { authorization: `Bearer ${scene.keys.admin}`, 'content-type': 'application/json' },
        body: route.request().postData(),
      })
      lost.push(((await answer.json()) as { execution_id: string }).execution_id)
      await route.abort()
    })
    await runButton(page).click()
    await page.getByRole('alert').getByText('The server cannot be reached.').waitFor()
    await page.unroute('**/v1/executions')
    await runButton(page).click()
    await expect.poll(() => runOf(page), SOON).not.toBe(first)
    expect([runOf(page), await countOf('once')]).toEqual([lost[0], 3])
  })

  browser.it.each(LOOKS)(
    'says why a request was refused, at the field, at %d px in %s',
    async (width, scheme) => {
      const address = `/playground?tenant=acme&min_isolation=strong&memory_mib=512`
      await using seen = await scene.open(address, { width, scheme })
      const { page } = seen
      await runButton(page).click()
      await page.getByRole('alert').getByText('is not valid').waitFor()
      await page.getByRole('alert').getByText('Correct what is marked below.').waitFor()
      const isolation = request(page).getByLabel('Isolation, at least')
      await page.locator('.field-problem').getByText('expected one of').waitFor()
      expect(await isolation.getAttribute('aria-invalid')).toBe('true')
      await expect
        .poll(() => page.evaluate<string>('document.activeElement.name'), SOON)
        .toBe('min_isolation')
      await expectSound(seen)
      await isolation.selectOption('')
      // A field that is folded away is shown when something is wrong with it.
      await page.getByText('Input and files').click()
      await request(page).getByLabel('Variables').fill('NO NAME=1')
      await page.getByText('Input and files').click()
      await runButton(page).click()
      await request(page).getByLabel('Variables').waitFor()
      await page.locator('.field-problem').getByText('shell-style variable name').waitFor()
      await request(page).getByLabel('Variables').fill('NAME=1')
      await request(page).getByLabel('Memory, MiB').fill('1')
      await page.getByText('Limits').click()
      await runButton(page).click()
      await request(page).getByLabel('Memory, MiB').waitFor()
      expect(runOf(page)).toBeNull()
      await request(page).getByLabel('Memory, MiB').fill('64')
      await runButton(page).click()
      await page.getByText('Succeeded').first().waitFor()
      expect(await page.getByRole('alert').count()).toBe(0)
      await expectSound(seen)
      seen.expectSilent()
    },
  )

  browser.inLongTier('says why a run was refused: by policy, by a cap, and by a full queue', async () => {
    await scene.client.tenants.create({
      tenant_id: 'capped',
      min_isolation: 'none',
      caps: { tenant_daily: 0 },
    })
    await scene.client.tenants.create({ tenant_id: 'strict', min_isolation: 'microvm' })
    await using seen = await scene.open('/playground?tenant=capped')
    const { page } = seen
    await runButton(page).click()
    await page.getByText('Refused: cap used up').first().waitFor()
    await page.getByRole('region', { name: 'Why' }).getByText('Why it was refused').waitFor()
    expect(await screenOf(page).count()).toBe(0)
    await expectSound(seen)
    await page.goto(`${scene.url}/playground?tenant=strict&backend=process`)
    await runButton(page).click()
    await page.getByRole('region', { name: 'Why' }).getByText('microvm').first().waitFor()
    const full = { tenant_id: 'full', min_isolation: 'none', caps: { max_queued: 1 } } as const
    await scene.client.tenants.create(full)
    const program = { type: 'script', language: 'python', source: '1' } as const
    const waits = { tenant_id: 'full', agent_id: 'a', program, delay_ms: 3_600_000 }
    await scene.client.enqueue(waits)
    await page.goto(`${scene.url}/playground?tenant=full`)
    await runButton(page).click()
    await page.getByRole('alert').getByText('queue_full').waitFor()
    await expectSound(seen)
    seen.expectSilent()
  })

  browser.inLongTier('keeps the program in its tab over a reload, and in no address', async () => {
    await using seen = await scene.open('/playground?tenant=acme')
    const { page } = seen
    const secret = `print('k3pt')  # ${ATTACK}`
    await editor(page).fill(secret)
    await page.getByText('Input and files').click()
    await request(page).getByLabel('Variables').fill('TOKEN=v4lue')
    await page.getByLabel('Language').selectOption('python')
    await request(page).getByLabel('Network').selectOption('public')
    await page.reload()
    expect(await editor(page).inputValue()).toBe(secret)
    expect(await request(page).getByLabel('Network').inputValue()).toBe('public')
    // Leave and come back through the navigation, whose links do not carry the choices of the form.
    await page.getByRole('link', { name: 'Executions' }).first().click()
    await page.getByRole('heading', { level: 1, name: 'Executions' }).waitFor()
    await page.getByRole('link', { name: 'Playground' }).click()
    await expect.poll(() => request(page).getByLabel('Network').inputValue(), SOON).toBe('public')
    expect(await editor(page).inputValue()).toBe(secret)
    const kept = await page.evaluate<string>(
      'JSON.stringify([location.href, history.state, { ...localStorage }, document.cookie])',
    )
    expect(kept).not.toMatch(/k3pt|v4lue/)
    expect(await page.evaluate<string>('JSON.stringify({ ...sessionStorage })')).not.toContain('v4lue')
    // If something is too large to keep, the page says so and keeps nothing older in its place.
    await request(page).getByText('Input and files').click()
    await request(page).getByLabel('Standard input').fill('x'.repeat(6_000_000))
    await page.getByText('a reload forgets it').waitFor()
    expect(await page.evaluate<number>('sessionStorage.length')).toBe(0)
    await request(page).getByLabel('Standard input').fill('')
    await page.getByText('Tab leaves the editor').waitFor()
    // Choosing another tenant at the top changes the tenant of the form, and the typed text stays.
    await page.locator('#tenant').fill('globex')
    await page.keyboard.press('Enter')
    await expect.poll(() => request(page).getByLabel('Tenant').inputValue(), SOON).toBe('globex')
    expect(await editor(page).inputValue()).toBe(secret)
    // Signing out deletes what the browser kept of the form.
    await page.getByLabel('Account').click()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('button', { name: 'Sign in' }).waitFor()
    expect(await page.evaluate<number>('sessionStorage.length')).toBe(0)
    seen.expectSilent()
  })

  browser.it('is for keys that may change things, and runs for the tenant of the key', async () => {
    await using reader = await scene.open('/playground?tenant=acme', { as: scene.keys.readOnly })
    await reader.page.getByText('This key may only read.').waitFor()
    expect(await reader.page.getByRole('link', { name: 'Playground' }).count()).toBe(0)
    expect(await reader.page.getByRole('button', { name: 'Run' }).count()).toBe(0)
    await reader.expectSound()
    reader.expectSilent()

    await using seen = await scene.open('/playground?tenant=globex', { as: scene.keys.acme, width: 390 })
    const { page } = seen
    await editor(page).waitFor()
    expect(await request(page).getByLabel('Tenant').count()).toBe(0)
    await runButton(page).click()
    await page.getByText('Succeeded').first().waitFor()
    expect(await scene.client.get(runOf(page))).toMatchObject({ tenant_id: 'acme' })
    await expectSound(seen)
    seen.expectSilent()
  })

  browser.inLongTier(
    'copies the request as it stands, and an execution to read, for three languages',
    async () => {
      await using seen = await scene.open('/playground?tenant=acme&memory_mib=64')
      const { page } = seen
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
      const copied = async (name: string): Promise<string> => {
        await page.getByRole('button', { name: `Copy as ${name}` }).click()
        await page.getByRole('button', { name: 'Copied' }).waitFor()
        await page.getByRole('button', { name: 'Copied' }).waitFor({ state: 'detached' })
        return page.evaluate<string>('navigator.clipboard.readText()')
      }
      await editor(page).fill(ATTACK)
      await page.getByText('Copy as').click()
      const body = (await copied('curl')).split("<<'JSON'\n")[1]?.replace(/\nJSON$/, '') ?? ''
      expect(JSON.parse(body)).toEqual({
        tenant_id: 'acme',
        agent_id: 'playground',
        program: { type: 'script', language: 'python', source: ATTACK },
        limits: { memory_mib: 64 },
      })
      expect(await copied('TypeScript')).toContain('client.run({\n  tenant_id: "acme",')
      expect(await copied('Python')).toContain('client.run({\n        "tenant_id": "acme",')

      const { execution_id: id } = await scene.client.run(
        { tenant_id: 'acme', agent_id: 'a', program: { type: 'script', language: 'python', source: '1' } },
        { timeoutMs: 120_000 },
      )
      await page.goto(`${scene.url}/executions/${id}`)
      await page.getByText('Copy as').click()
      await expectSound(seen)
      expect(await copied('curl')).toContain(`'${scene.url}/v1/executions/${id}'`)
      expect(await copied('TypeScript')).toContain(`client.get("${id}")`)
      expect(await copied('Python')).toContain(`client.get("${id}")`)
      seen.expectSilent()
    },
  )
})
