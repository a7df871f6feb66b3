/** Signing in and out, and what a page shows without a valid sign-in. */
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect } from 'vitest'
import { LOOKS } from './looks.ts'
import { openUiScene, type Scene } from './scene.ts'
import { codeFor } from './seen-page.ts'

const browser = needs('chromium')
let scene: Scene

browser.describe('the sign-in page', () => {
  beforeAll(async () => {
    scene = await openUiScene({ workers: false })
  })
  afterAll(() => scene?.[Symbol.asyncDispose]())

  browser.it.each(LOOKS)(
    'is sound at %d px in %s, and takes a key by keyboard alone',
    async (width, scheme) => {
      await using seen = await scene.open('/executions?status=live', { as: null, width, scheme })
      const { page } = seen
      await page.getByLabel('API key').waitFor()
      await seen.expectSound()
      await page.keyboard.press('Tab')
      await page.keyboard.type(scene.keys.admin)
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: 'Executions' }).waitFor()
      expect(new URL(page.url()).search).toBe('?status=live')
      await page.getByText('Nothing waits or runs.').waitFor()
      await seen.expectSound()
      const kept = await page.evaluate('[document.cookie, localStorage.length, sessionStorage.length]')
      expect(kept).toEqual(['', 0, 0])
      seen.expectSilent()
    },
  )

  browser.it('says that a key is wrong', async () => {
    await using seen = await scene.open('/', { as: null })
    await seen.page.getByLabel('API key').fill('cfd_wrong')
    await seen.page.getByRole('button', { name: 'Sign in' }).click()
    await seen.page.getByRole('alert').getByText('The API key is unknown or was revoked.').waitFor()
    await seen.expectSound()
  })

  browser.it('takes the code of a link once, and removes it from the address', async () => {
    const code = await codeFor(scene.url, scene.keys.acme)
    for (const isFirst of [true, false]) {
      await using seen = await scene.open(`/executions#code=${code}`, { as: null })
      if (isFirst) await seen.page.getByRole('heading', { name: 'Executions' }).waitFor()
      else await seen.page.getByRole('alert').getByText('The link was used before').waitFor()
      expect(seen.page.url()).toBe(`${scene.url}/executions`)
    }
  })

  browser.it('comes back when the key is revoked, and when one signs out', async () => {
    const { id, key } = await scene.fleet.store.keys.create({ tenant_id: 'acme' }, 'revoked')
    await using seen = await scene.open('/executions', { as: key })
    await seen.page.getByText('Nothing has run yet.').waitFor()
    await scene.client.tenants.revokeKey('acme', id)
    await seen.page.getByLabel('API key').waitFor()

    // A page with an open stream of events signs out too, and shows nothing any more.
    const program = { type: 'script', language: 'python', source: 'print(1)' } as const
    const waits = { tenant_id: 'acme', agent_id: 'analyst', program, delay_ms: 3_600_000 }
    const { execution_id: waiting } = await scene.client.enqueue(waits)
    const second = await scene.fleet.store.keys.create({ tenant_id: 'acme' }, 'revoked')
    await using watching = await scene.open(`/executions/${waiting}`, { as: second.key })
    await watching.page.getByText('Why it waits').waitFor()
    await scene.client.tenants.revokeKey('acme', second.id)
    await watching.page.getByLabel('API key').waitFor()
    expect(await watching.page.content()).not.toContain(waiting)
    await scene.client.cancel(waiting)

    await using other = await scene.open('/executions')
    await other.page.getByLabel('Account').click()
    await other.page.getByRole('button', { name: 'Sign out' }).click()
    await other.page.getByLabel('API key').waitFor()
    await other.page.reload()
    await other.page.getByLabel('API key').waitFor()
  })

  browser.it('shows a tenant only its own pages, and a reader nothing to change', async () => {
    await using tenant = await scene.open('/', { as: scene.keys.acme })
    await tenant.page.getByRole('heading', { name: 'Executions' }).waitFor()
    expect(
      await tenant.page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allTextContents(),
    ).not.toContain('Overview')
    expect(await tenant.page.getByLabel('Tenant', { exact: true }).count()).toBe(0)

    await using reader = await scene.open('/executions?tenant=acme', { as: scene.keys.readOnly })
    await reader.page.getByText('read only').waitFor()
    expect(await reader.page.getByRole('button', { name: /^Cancel/ }).count()).toBe(0)
    await using operator = await scene.open('/executions?tenant=acme')
    await operator.page.getByRole('button', { name: 'Cancel all of acme' }).waitFor()
  })
})
