/** The pages of tenants: stop and undo, caps that somebody else changes, keys, and who sees what. */
import { readFile } from 'node:fs/promises'
import type { ExecutionRequest, Tenants } from '@cofferdam/client'
import { isLongTier, needs } from '@cofferdam/embedded/needs'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import { LOOKS } from './looks.ts'
import { openUiScene, type Scene } from './scene.ts'

const browser = needs('chromium', 'process')
const SOON = { timeout: 60_000, interval: 100 }
/** A tenant ID as long as the API allows. `ATTACK` is text that a hostile operator can put into a label. */
const LONG = `Evil.tenant@${'x'.repeat(116)}`
const ATTACK = '<img src=x onerror=alert(1)> \u202E"\' &amp;'
let scene: Scene

const request = (tenant: string, source: string, more: Partial<ExecutionRequest> = {}): ExecutionRequest => ({
  tenant_id: tenant,
  agent_id: 'analyst',
  program: { type: 'script', language: 'python', source },
  ...more,
})
const createTenant = (id: string, caps: Parameters<Tenants['changeCaps']>[1] = {}) =>
  scene.client.tenants.create({ tenant_id: id, min_isolation: 'none', caps })
const capsOf = (id: string) => scene.client.tenants.caps(id)
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

/** The cells of a dialog's row. */
const cellsOf = (page: Page, setting: string): Promise<string[]> =>
  page.getByRole('dialog').locator('tr').filter({ hasText: setting }).locator('td').allTextContents()

/** Calls the API with a key, and tells the status. */
const statusOf = async (key: string, method: string, path: string, body?: unknown): Promise<number> => {
  const answer = await fetch(`${scene.url}/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  await answer.arrayBuffer()
  return answer.status
}

browser.describe('the pages of tenants', () => {
  beforeAll(async () => {
    scene = await openUiScene()
  })
  afterAll(() => scene?.[Symbol.asyncDispose]())

  browser.it('stop a tenant by name, cancel what it has, and undo the stop', async () => {
    await createTenant('busy', { tenant_daily: 500, concurrency: 1 })
    const limits = { soft_timeout_ms: 500_000, hard_timeout_ms: 510_000 }
    const long = await scene.client.enqueue(request('busy', 'import time; time.sleep(500)', { limits }))
    await expect.poll(async () => (await scene.client.get(long.execution_id))?.status, SOON).toBe('running')
    for (const delay_ms of [3_600_000, 3_600_000])
      await scene.client.enqueue(request('busy', 'print(1)', { delay_ms }))

    await using seen = await scene.open('/tenants/busy')
    const { page } = seen
    await button(page, 'Stop this tenant').click()
    const dialog = page.getByRole('dialog', { name: 'Stop busy' })
    await dialog.getByText('Now: 1 of 500 used today; 2 wait, 1 runs.').waitFor()
    await seen.expectSound()
    for (const typed of ['', 'Busy', 'busy ', 'acme']) {
      await dialog.getByLabel('Type busy to confirm').fill(typed)
      expect(await button(page, 'Stop it').isDisabled()).toBe(true)
      await page.keyboard.press('Enter')
    }
    expect((await capsOf('busy')).tenant_daily).toBe(500)
    await dialog.getByLabel('Type busy to confirm').fill('busy')
    await page.keyboard.press('Enter')

    const cancel = page.getByRole('dialog', { name: 'Cancel what waits and runs' })
    await cancel.getByLabel('Reason').fill('runs away')
    expect(await capsOf('busy')).toMatchObject({ tenant_daily: 0, concurrency: 1 })
    await seen.expectSound()
    await cancel.getByRole('button', { name: 'Cancel what waits and runs' }).click()
    await cancel.getByText('2 executions cancelled · 1 told to stop').waitFor()
    await cancel.getByRole('button', { name: 'Close', exact: true }).last().click()
    await page.getByText('Nothing starts: its daily cap is 0.').waitFor()
    await seen.expectSound()
    const refused = await scene.client.run(request('busy', 'print(1)'), { timeoutMs: 120_000 })
    expect(refused.ending).toBe('cap_exceeded')

    // A later change of other caps must not hide the daily cap of before the stop.
    await scene.client.tenants.changeCaps('busy', { weight: 3, concurrency: 4 })
    await button(page, 'Undo the stop').click()
    await page.getByRole('dialog').getByText('The daily cap becomes 500 again').waitFor()
    await seen.expectSound()
    await page.getByRole('dialog').getByRole('button', { name: 'Undo the stop' }).click()
    await page.getByText('Active', { exact: true }).waitFor()
    expect(await capsOf('busy')).toMatchObject({ tenant_daily: 500, weight: 3, concurrency: 4 })
    const ran = await scene.client.run(request('busy', 'print(1)'), { timeoutMs: 120_000 })
    expect(ran.ending).toBe('ok')
    const events = await Array.fromAsync(scene.client.tenants.policyEvents('busy', { event_type: 'caps' }))
    expect(events.map(({ via }) => via)).toEqual(['ui', null, 'ui'])
    seen.expectSilent()
  })

  browser.it('show an operator who changed what in the whole fleet, and who made admin keys', async () => {
    await createTenant('watched')
    await scene.client.tenants.changeCaps('watched', { burst: 3 })
    const made = await scene.client.fleet.createAdminKey({ label: ATTACK, read_only: true })
    await scene.client.fleet.revokeAdminKey(made.id)
    await using seen = await scene.open('/audit')
    const { page } = seen
    await page.getByRole('link', { name: 'Changes' }).click()
    const rows = page.locator('.events li')
    await rows.filter({ hasText: 'admin key revoked' }).getByText(made.id).waitFor()
    await rows.filter({ hasText: 'admin key created' }).first().getByText('fleet', { exact: true }).waitFor()
    await seen.expectSound()
    await page.getByLabel('Kind of change').selectOption('caps')
    await rows.first().getByText('burst').waitFor()
    expect(new URL(page.url()).search).toBe('?show=changes&kind=caps')
    await rows.first().getByRole('link', { name: 'watched' }).click()
    await page.getByRole('heading', { level: 1, name: 'watched' }).waitFor()
    // A tenant’s key sees the changes of its own tenant, and none of other tenants or of the fleet.
    await using other = await scene.open('/audit?show=changes', {
      as: scene.keys.acme,
      width: 390,
      scheme: 'dark',
    })
    await other.page.locator('.events li').first().getByText('created').waitFor()
    expect(await other.page.locator('.events').textContent()).not.toMatch(/watched|admin key/)
    await other.expectSound()
    for (const one of [seen, other]) one.expectSilent()
  })

  browser.inLongTier('undo no stop that somebody else undid, and none that no event tells of', async () => {
    await createTenant('undone')
    await using seen = await scene.open('/tenants/undone', { width: 390, scheme: 'dark' })
    const { page } = seen
    await scene.client.tenants.changeCaps('undone', { tenant_daily: 0 })
    await button(page, 'Undo the stop').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('becomes the default of the fleet again').waitFor()
    await scene.client.tenants.changeCaps('undone', { tenant_daily: 7 })
    await dialog.getByRole('button', { name: 'Undo the stop' }).click()
    await dialog.getByText('Somebody set the daily cap to 7 meanwhile.').waitFor()
    await seen.expectSound()
    expect((await capsOf('undone')).tenant_daily).toBe(7)
    await dialog.getByRole('button', { name: 'Leave it stopped' }).click()
    await button(page, 'Stop this tenant').waitFor()

    await createTenant('never', { tenant_daily: 0 })
    await page.goto(`${scene.url}/tenants/never`)
    await button(page, 'Undo the stop').click()
    await page.getByText('No event tells what the daily cap was before.').waitFor()
    expect(await page.getByRole('dialog').getByRole('button', { name: 'Undo the stop' }).count()).toBe(0)
  })

  browser.inLongTier(
    'show both values when somebody else changed the caps, and save nothing before one decides',
    async () => {
      await createTenant('shared', { tenant_daily: 500, weight: 1 })
      await scene.client.enqueue(request('shared', 'print(1)', { delay_ms: 3_600_000 }))
      await using seen = await scene.open('/tenants/shared')
      const { page } = seen
      const dialog = page.getByRole('dialog', { name: 'Change the caps' })
      const daily = page.getByLabel('Attempts a day')
      await daily.fill('900')
      await scene.client.tenants.changeCaps('shared', { tenant_daily: 700, weight: 2 })
      await button(page, 'Save…').first().click()
      await dialog.getByRole('alert').getByText('Somebody changed 2 values').waitFor()
      expect(await cellsOf(page, 'Attempts a day')).toEqual(['Attempts a day', '500', '700', '900'])
      expect(await cellsOf(page, 'Weight')).toEqual(['Weight', '1', '2', 'not changed'])
      await dialog.getByText('Now: 0 of 700 used today; 1 waits, 0 run.').waitFor()
      await seen.expectSound()
      await button(page, 'Take theirs').click()
      const shown = async () => [await daily.inputValue(), await page.getByLabel('Weight').inputValue()]
      await expect.poll(shown, SOON).toEqual(['700', '2'])
      expect((await capsOf('shared')).tenant_daily).toBe(700)

      // Somebody else changes the cap again while the dialog is open.
      await daily.fill('900')
      await button(page, 'Save…').first().click()
      await button(page, 'Save').waitFor()
      expect(await cellsOf(page, 'Attempts a day')).toEqual(['Attempts a day', '700', '900'])
      await scene.client.tenants.changeCaps('shared', { tenant_daily: 800, burst: 5 })
      await button(page, 'Save').click()
      await dialog.getByRole('alert').waitFor()
      expect((await capsOf('shared')).tenant_daily).toBe(800)
      await button(page, 'Save mine').click()
      await dialog.waitFor({ state: 'detached' })
      expect(await capsOf('shared')).toMatchObject({ tenant_daily: 900, weight: 2, burst: 5 })
      await page.getByLabel('Changes').getByText('900').first().waitFor()
      seen.expectSilent()
    },
  )

  browser.it('change the policy, and say before what a cap of 0 means', async () => {
    await createTenant('ruled')
    await scene.client.tenants.changePolicy('ruled', { redact: ['a-secret-of-acme'] })
    await using seen = await scene.open('/tenants/ruled', { width: 390 })
    const { page } = seen
    await page.getByLabel('Attempts a day').fill('0')
    await button(page, 'Save…').first().click()
    await page.getByText('A cap of 0 stops the tenant: nothing starts any more.').waitFor()
    await button(page, 'Back').click()
    await button(page, 'Discard').click()
    expect(await page.getByLabel('Attempts a day').inputValue()).toBe('')
    for (const wrong of ['-1', '1.5', '1000000001']) {
      await page.getByLabel('Attempts a day').fill(wrong)
      await button(page, 'Save…').first().click()
      expect(await page.getByRole('dialog').count()).toBe(0)
    }
    await button(page, 'Discard').click()

    await page.getByLabel('May run programs').uncheck()
    await page.getByLabel('Programs kept').selectOption('errors')
    await page.getByLabel('Days rows are kept').fill('7')
    await button(page, 'Save…').last().click()
    await page.getByText('Every new execution will be refused.').waitFor()
    await seen.expectSound()
    await button(page, 'Save').click()
    await page.getByText('Sandbox off').waitFor()
    expect(await scene.client.tenants.policy('ruled')).toMatchObject({
      sandbox_enabled: false,
      keep_program: 'errors',
      retention_days: 7,
      redact: ['a-secret-of-acme'],
    })
    await page.getByText('1 value', { exact: true }).waitFor()
    expect(await page.content()).not.toContain('a-secret-of-acme')
    seen.expectSilent()
  })

  browser.inLongTier(
    'change the caps of single agents, and show which of them somebody else changed',
    async () => {
      await createTenant('agents', { agents: { analyst: 5, other: 9 } })
      await using seen = await scene.open('/tenants/agents')
      const { page } = seen
      const agents = page.getByLabel('Attempts an hour of single agents')
      expect(await agents.inputValue()).toBe('analyst 5\nother 9')
      for (const wrong of ['analyst', 'analyst 5\nanalyst 6', 'analyst -1', 'analyst 1000000001']) {
        await agents.fill(wrong)
        await button(page, 'Save…').first().click()
        expect(await page.getByRole('dialog').count()).toBe(0)
      }
      await agents.fill('new 0\nanalyst  6\nother 9')
      await scene.client.tenants.changeCaps('agents', { agents: { analyst: 7, other: 9 } })
      await button(page, 'Save…').first().click()
      const dialog = page.getByRole('dialog', { name: 'Change the caps' })
      await dialog.getByRole('alert').getByText('Somebody changed a value').waitFor()
      expect((await cellsOf(page, 'Attempts an hour of single agents')).slice(1)).toEqual(
        ['analyst 5', 'analyst 7', 'analyst 6\nnew 0'].map((lines) => `${lines}\n1 in common`),
      )
      await seen.expectSound()
      expect((await capsOf('agents')).agents).toEqual({ analyst: 7, other: 9 })
      await button(page, 'Save mine').click()
      await dialog.waitFor({ state: 'detached' })
      expect((await capsOf('agents')).agents).toEqual({ analyst: 6, new: 0, other: 9 })
      await agents.fill('')
      await button(page, 'Save…').first().click()
      await button(page, 'Save').click()
      await dialog.waitFor({ state: 'detached' })
      expect((await capsOf('agents')).agents).toEqual({})
      seen.expectSilent()
    },
  )

  browser.inLongTier('change the rules of a policy as lists, and never show what is redacted', async () => {
    await createTenant('listed')
    const policyOf = () => scene.client.tenants.policy('listed')
    const changePolicy = (patch: Parameters<Tenants['changePolicy']>[1]) =>
      scene.client.tenants.changePolicy('listed', patch)
    await changePolicy({
      redact: ['a-secret-of-acme'],
      commands: { allow: [], block: ['curl'] },
      packages: { pypi: ['requests'], npm: [] },
    })
    await using seen = await scene.open('/tenants/listed', { width: 390, scheme: 'dark' })
    const { page } = seen
    const dialog = page.getByRole('dialog', { name: 'Change the rules' })
    await page.getByText('Rules: network').click()
    expect(await page.getByLabel('The only programs of commands').inputValue()).toBe('(no program)')
    await page.getByLabel('Network').fill('*.example.org\napi.example.com:8443')
    await page.getByLabel('Environments').selectOption('internal-only')
    await page.getByLabel('Packages of PyPI').fill('requests\nnumpy==2.*')
    await page.getByLabel('Blocked programs of commands').fill('curl\ngit push')
    await page.getByLabel('Templates of agents').fill('analyst strict')
    await page.getByLabel('More values to redact').fill('another-secret-of-acme')
    // Scroll to the top, so that the bar there covers no part of a field.
    await page.evaluate('window.scrollTo(0, 0)')
    await seen.expectSound()
    // Somebody else changed another list of the same property meanwhile. That list must stay as it is.
    await changePolicy({ packages: { pypi: ['requests'], npm: ['left-pad'] } })
    await button(page, 'Save…').last().click()
    await dialog.getByRole('alert').getByText('Somebody changed a value').waitFor()
    expect(await cellsOf(page, 'Packages of npm')).toEqual([
      'Packages of npm',
      '–',
      'left-pad',
      'not changed',
    ])
    expect((await cellsOf(page, 'More values to redact')).at(-1)).toBe('1 value')
    await seen.expectSound()
    await button(page, 'Save mine').click()
    await dialog.waitFor({ state: 'detached' })
    expect(await policyOf()).toMatchObject({
      network: { allow: ['*.example.org', 'api.example.com:8443'] },
      environments: ['internal-only'],
      packages: { pypi: ['numpy==2.*', 'requests'], npm: ['left-pad'] },
      commands: { allow: [], block: ['curl', 'git push'] },
      templates: { required: false, agents: { analyst: 'strict' } },
      redact: ['a-secret-of-acme', 'another-secret-of-acme'],
    })
    await page.getByText('2 values', { exact: true }).waitFor()
    expect(await page.getByLabel('More values to redact').inputValue()).toBe('')
    expect(await page.content()).not.toMatch(/secret-of-acme/)
    await page.getByLabel('Forget all values to redact').check()
    await button(page, 'Save…').last().click()
    await dialog.getByText('Programs that print what was redacted will show it.').waitFor()
    await button(page, 'Save').click()
    await dialog.waitFor({ state: 'detached' })
    expect(await policyOf()).toMatchObject({ redact: [], environments: ['internal-only'] })
    seen.expectSilent()
  })

  browser.it('show a new key once, and revoke it', async () => {
    await createTenant('keyed')
    await using seen = await scene.open('/tenants/keyed')
    const { page } = seen
    await button(page, 'Make a key').click()
    await page.getByLabel('What it is for').fill(ATTACK)
    await page.getByLabel('Only reads').check()
    await seen.expectSound()
    await button(page, 'Make the key').click()
    const key = (await page.locator('.secret code').textContent()) ?? ''
    expect(key).toMatch(/^cfd_[0-9a-f]{40}$/)
    await seen.expectSound()
    expect(await statusOf(key, 'GET', '/tenants/keyed/caps')).toBe(200)
    expect(await statusOf(key, 'POST', '/executions', request('keyed', 'print(1)'))).toBe(403)
    await button(page, 'I have it').click()
    const row = page.getByRole('row').filter({ hasText: ATTACK })
    await row.getByText('read only').waitFor()
    expect(await page.content()).not.toContain(key)
    await page.reload()
    await row.getByText('Valid').waitFor()
    expect(await page.content()).not.toContain(key)
    await row.getByRole('button', { name: /^Revoke/ }).click()
    await page.getByRole('dialog').getByText(ATTACK).waitFor()
    await seen.expectSound()
    await button(page, 'Revoke it').click()
    await row.getByText('Revoked').waitFor()
    await expect.poll(() => statusOf(key, 'GET', '/tenants/keyed/caps'), SOON).toBe(401)
    await page.getByLabel('Changes').getByText('key revoked').waitFor()
    expect(await page.locator('main img').count()).toBe(0)
    seen.expectSilent()
  })

  browser.it.each(LOOKS)('are sound with hostile and long names, at %d px in %s', async (width, scheme) => {
    if ((await scene.fleet.store.tenants.get(LONG)) === null) {
      await createTenant(LONG, { agents: { [`agent@${'y'.repeat(122)}`]: 3 }, tenant_daily_cost: 5_000_000 })
      await scene.client.tenants.createKey(LONG, { label: ATTACK.repeat(5).slice(0, 200), read_only: false })
      const ran = await scene.client.run(request(LONG, 'print(1)', { agent_id: `agent@${'y'.repeat(122)}` }))
      expect(ran.ok).toBe(true)
    }
    await using seen = await scene.open('/tenants', { width, scheme })
    const { page } = seen
    await page.getByRole('link', { name: LONG }).waitFor()
    await seen.expectSound()
    await page.getByRole('link', { name: LONG }).click()
    await page.getByRole('heading', { level: 1, name: LONG }).waitFor()
    await page.getByLabel('Changes').getByText('key created').waitFor()
    await page.getByRole('link', { name: 'Agent', exact: true }).click()
    await page.getByLabel('Use', { exact: true }).getByTitle('agent@').waitFor()
    await seen.expectSound()
    const download = page.waitForEvent('download')
    await button(page, 'CSV').click()
    const csv = await readFile(await (await download).path(), 'utf8')
    expect(csv).toMatch(/^agent,calls,failed,cpu_ms,run_ms,gb_seconds,cost\r\nagent@y{122},1,0,[\d.,]+\r\n$/)
    await button(page, 'Stop this tenant').click()
    await page.getByRole('dialog').waitFor()
    await seen.expectSound()
    expect(await page.locator('main img').count()).toBe(0)
    seen.expectSilent()
  })

  browser.it('show a tenant its own page with its callback secret, and a reader no buttons', async () => {
    await using tenant = await scene.open('/', { as: scene.keys.acme, width: 390 })
    await tenant.page
      .getByRole('navigation', { name: 'Pages' })
      .getByRole('link', { name: 'Tenants' })
      .click()
    await tenant.page.getByRole('heading', { level: 1, name: 'acme' }).waitFor()
    await tenant.page.getByText('100,000', { exact: true }).first().waitFor()
    expect(await button(tenant.page, 'Save…').count()).toBe(0)
    expect(await button(tenant.page, 'Stop this tenant').count()).toBe(0)
    expect(await tenant.page.getByRole('heading', { name: 'Keys' }).count()).toBe(0)
    await button(tenant.page, 'Make it').click()
    await tenant.page.getByRole('dialog').getByRole('button', { name: 'Make it' }).click()
    const secret = (await tenant.page.locator('.secret code').textContent()) ?? ''
    expect(secret).toMatch(/^whsec_/)
    await tenant.expectSound()
    await button(tenant.page, 'I have it').click()
    await button(tenant.page, 'Rotate').waitFor()
    expect(await tenant.page.content()).not.toContain(secret)
    await tenant.page.goto(`${scene.url}/tenants/globex`)
    await tenant.page.getByRole('alert').first().waitFor()
    expect(await tenant.page.getByRole('heading', { name: 'Caps' }).count()).toBe(0)

    await createTenant('quiet')
    await using reader = await scene.open('/tenants/quiet', { as: scene.keys.readOnly })
    await reader.page.getByText('It has no keys.').waitFor()
    await reader.page.getByText('Nothing was charged in these days.').waitFor()
    expect(await reader.page.getByRole('main').getByRole('button').count()).toBe(0)
    expect(await reader.page.getByRole('main').locator('input, select').count()).toBe(0)
    await reader.expectSound()
    reader.expectSilent()
  })

  const nowhere = [
    '/tenants/..%2F..%2Fqueue',
    ...(isLongTier() ? ['/tenants/nobody', '/tenants/%3Cb%3E'] : []),
  ]
  browser.it.each(nowhere)('say that there is no tenant at %s', async (path) => {
    await using seen = await scene.open(path)
    await seen.page.getByRole('alert').first().waitFor()
    expect(await button(seen.page, 'Stop this tenant').count()).toBe(0)
    await seen.expectSound()
  })
})
