/** The pages stay small when 2,000 executions wait. Two hundred of them are cancelled together. */
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect } from 'vitest'
import { enqueueCrowd, LIVE, seeBounded } from './huge-views.ts'
import { openUiScene, type Scene } from './scene.ts'

const browser = needs('chromium', 'process')
const PATIENT = { timeout: 900_000 }
const SOON = { timeout: 60_000, interval: 200 }
let scene: Scene

/** How many executions of each of these tenants wait. */
async function waitingOf(...names: string[]): Promise<number[]> {
  const { tenants } = await scene.client.fleet.queueTenants()
  return names.map((name) => tenants.find(({ tenant_id: tenant }) => tenant === name)?.waiting ?? 0)
}

browser.describe('the pages', () => {
  beforeAll(async () => {
    scene = await openUiScene({ workers: false })
  })
  afterAll(() => scene?.[Symbol.asyncDispose]())

  browser.it('ask for bounded lists while 2,000 executions wait, and hold little', PATIENT, async () => {
    await enqueueCrowd(scene, 2_000)
    // huge.long.test.ts opens the other pages too.
    await seeBounded(scene, LIVE)
  })

  browser.it('cancel two hundred executions of a tenant, and none of another one', PATIENT, async () => {
    await using seen = await scene.open('/executions?tenant=crowd-0')
    const { page } = seen
    await page.getByRole('button', { name: 'Cancel all of crowd-0' }).click()
    const dialog = page.getByRole('dialog', { name: 'Cancel all of crowd-0' })
    await dialog.getByLabel('Reason').fill('runs away')
    await dialog.getByRole('button', { name: 'Cancel all of crowd-0' }).click()
    await dialog.getByText('200 executions cancelled', { exact: true }).waitFor({ timeout: 300_000 })
    await dialog.getByRole('button', { name: 'Close', exact: true }).last().click()
    // What the API counts of tenants is up to a few seconds old.
    await expect.poll(() => waitingOf('crowd-0', 'crowd-1'), SOON).toEqual([0, 200])
    seen.expectSilent()
  })
})
