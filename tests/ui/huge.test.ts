/**
 * The pages stay small when 6,000 executions wait, and when a program prints 100,000 lines at once. Six
 * hundred executions are cancelled together.
 */
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect } from 'vitest'
import { enqueueCrowd, floodOf, seeBounded, VIEWS, watchFlood } from './huge-views.ts'
import { openUiScene, type Scene } from './scene.ts'

const browser = needs('chromium', 'process')
const PATIENT = { timeout: 900_000 }
const SOON = { timeout: 60_000, interval: 200 }
const FEW = ['/executions?status=live', '/queue', '/']
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

  browser.it('hold the last 5,000 of 100,000 lines of 100 characters', PATIENT, async () => {
    await watchFlood(scene, floodOf(100_000), 'row 99999 ')
  })

  browser.it('ask for bounded lists while 6,000 executions wait, and hold little', PATIENT, async () => {
    await enqueueCrowd(scene, 6_000)
    // huge.long.test.ts opens all of them.
    for (const view of VIEWS.filter(({ path }) => FEW.includes(path))) await seeBounded(scene, view)
  })

  browser.it('cancel six hundred executions of a tenant, and none of another one', PATIENT, async () => {
    await using seen = await scene.open('/executions?tenant=crowd-0')
    const { page } = seen
    await page.getByRole('button', { name: 'Cancel all of crowd-0' }).click()
    const dialog = page.getByRole('dialog', { name: 'Cancel all of crowd-0' })
    await dialog.getByLabel('Reason').fill('runs away')
    await dialog.getByRole('button', { name: 'Cancel all of crowd-0' }).click()
    await dialog.getByText('600 executions cancelled', { exact: true }).waitFor({ timeout: 300_000 })
    await dialog.getByRole('button', { name: 'Close', exact: true }).last().click()
    // What the API counts of tenants is up to a few seconds old.
    await expect.poll(() => waitingOf('crowd-0', 'crowd-1'), SOON).toEqual([0, 600])
    seen.expectSilent()
  })
})
