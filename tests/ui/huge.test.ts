/** The pages stay small when 10,000 executions wait, and when a program prints 100,000 lines at once. */
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

  browser.it('ask for bounded lists while 10,000 executions wait, and hold little', async () => {
    await enqueueCrowd(scene, 10_000)
    for (const view of VIEWS) await seeBounded(scene, view)
  })
})
