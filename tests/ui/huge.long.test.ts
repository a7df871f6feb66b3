/** As huge.test.ts, with 100,000 executions that wait and a program that prints 100 MB. */
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll } from 'vitest'
import { enqueueCrowd, floodOf, seeBounded, VIEWS, watchFlood } from './huge-views.ts'
import { openUiScene, type Scene } from './scene.ts'

const browser = needs('chromium', 'process')
let scene: Scene

browser.describe('the pages', () => {
  beforeAll(async () => {
    scene = await openUiScene({ workers: false })
  })
  afterAll(() => scene?.[Symbol.asyncDispose]())

  browser.it('hold the last 5,000 of 100,000 lines of 100 characters', async () => {
    await watchFlood(scene, floodOf(100_000), 'row 99999 ')
  })

  browser.it('stay small while a program prints 100 MB, of which the fleet passes on 16 MiB', async () => {
    await watchFlood(scene, floodOf(1_000_000), 'row 167772 ')
  })

  browser.it(
    'ask for bounded lists while 100,000 executions wait, and hold little',
    { timeout: 600_000 },
    async () => {
      await enqueueCrowd(scene, 100_000)
      for (const view of VIEWS) await seeBounded(scene, view)
    },
  )
})
