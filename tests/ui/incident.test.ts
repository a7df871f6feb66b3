/**
 * An operator on call asks the questions of an incident, each from the overview. Every answer is on a page,
 * as many clicks away as the table in docs/operations/dashboard.md says. The test prints how long this
 * machine took for each question, for the table's last column.
 */
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { ExecutionRequest } from '@cofferdam/client'
import { needs } from '@cofferdam/embedded/needs'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, vi } from 'vitest'
import { openUiScene, type Scene } from './scene.ts'
import type { SeenPage } from './seen-page.ts'

const browser = needs('chromium', 'process')
const SOON = { timeout: 60_000, interval: 100 }
const SLOTS = 2
const DOCS = new URL('../../docs/operations/dashboard.md', import.meta.url)
const FAILING = 'print("loaded 3 of 7 files")\nraise RuntimeError("file 4 is empty")'
const SLEEPING = 'import time\ntime.sleep(500)'

const request = (tenant: string, source: string): ExecutionRequest => ({
  tenant_id: tenant,
  agent_id: 'analyst',
  program: { type: 'script', language: 'python', source },
  limits: { soft_timeout_ms: 500_000, hard_timeout_ms: 510_000 },
})

/** Counts what a hand does: a click, or Enter. Typing is not counted. */
class Operator {
  readonly page: Page
  clicks = 0

  constructor(page: Page) {
    this.page = page
  }

  async click(target: Locator): Promise<void> {
    await target.click()
    this.clicks += 1
  }

  async enter(field: Locator, text: string): Promise<void> {
    await field.fill(text)
    await field.press('Enter')
    this.clicks += 1
  }

  async find(id: string): Promise<void> {
    const box = this.page.getByRole('searchbox', { name: 'Find executions' })
    await this.click(box)
    await this.enter(box, id)
  }

  async goTo(title: string): Promise<void> {
    const pages = this.page.getByRole('navigation', { name: 'Pages' })
    await this.click(pages.getByRole('link', { name: title, exact: true }))
  }

  async openTenant(id: string): Promise<void> {
    await this.goTo('Tenants')
    await this.click(this.page.getByRole('link', { name: id, exact: true }))
  }

  panel(name: string): Locator {
    return this.page.getByRole('region', { name, exact: true })
  }

  button(name: string): Locator {
    return this.page.getByRole('button', { name, exact: true })
  }
}

interface Question {
  question: string
  /** Where the answer is. */
  page: string
  /** Finds the answer, and fails if it is not there. */
  answer: (operator: Operator) => Promise<void>
}

let scene: Scene
let seen: SeenPage
const ids = { failed: '', waiting: '', refused: '' }

const QUESTIONS: readonly Question[] = [
  {
    question: 'Does the fleet work, and what needs attention?',
    page: 'Overview',
    async answer({ page }) {
      await page.getByRole('link', { name: 'No worker can use the backend docker.' }).waitFor()
      const running = page.locator('.figure-card').filter({ hasText: 'Running' })
      await running.getByText(`${SLOTS}`).first().waitFor()
    },
  },
  {
    question: 'Why can no worker use this backend, and what mends it?',
    page: 'Backends',
    async answer(operator) {
      await operator.click(operator.page.getByRole('link', { name: 'No worker can use the backend docker.' }))
      const report = operator.page.locator('.report').filter({ hasText: 'Does not work' })
      await report.locator('.action').first().waitFor()
      expect(await report.locator('p.tone-bad').innerText()).toMatch(/docker/i)
    },
  },
  {
    question: 'Who floods the queue, and who is next?',
    page: 'Queue',
    async answer(operator) {
      await operator.goTo('Queue')
      const row = operator.page.locator('.tenants tbody tr').filter({ hasText: 'runaway' })
      await row
        .locator('[data-name=waiting]')
        .getByText(/^(1\d|20)$/)
        .waitFor()
      await operator.page.locator('.tenants tbody tr').first().locator('[data-name=place]').waitFor()
    },
  },
  {
    question: 'Why does this execution wait, and for how long still?',
    page: 'an execution',
    async answer(operator) {
      await operator.find(ids.waiting)
      await operator.panel('Why').getByRole('heading', { name: 'Why it waits' }).waitFor()
      await operator.page.getByText(/place \d+ in the queue/).waitFor()
    },
  },
  {
    question: 'What happened to this one, why, and at what cost?',
    page: 'an execution',
    async answer(operator) {
      await operator.find(ids.failed)
      await operator.panel('Why').getByRole('heading', { name: 'Why it ended so' }).waitFor()
      await operator.panel('Output').getByText('RuntimeError: file 4 is empty').waitFor()
      await operator.panel('Use and cost').getByText('Cost', { exact: true }).waitFor()
    },
  },
  {
    question: 'Who else is affected by the same program?',
    page: 'Executions',
    async answer(operator) {
      await operator.find(ids.failed)
      const details = operator
        .panel('Details')
        .locator('div')
        .filter({ hasText: /^Program/ })
      await operator.click(details.getByRole('link'))
      await operator.page.getByRole('row').filter({ hasText: 'globex' }).getByText('Failed').waitFor()
    },
  },
  {
    question: 'Why was this one refused, and who set the cap?',
    page: 'an execution',
    async answer(operator) {
      await operator.find(ids.refused)
      await operator
        .panel('Why')
        .getByText(/key:\S+ set this cap at/)
        .waitFor()
    },
  },
  {
    question: 'How is the tenant stopped, with all its executions that wait or run?',
    page: 'a tenant',
    async answer(operator) {
      const { page } = operator
      await operator.goTo('Queue')
      const row = page.locator('.tenants tbody tr').filter({ hasText: 'runaway' })
      await operator.click(row.getByTitle('Caps of runaway, and its stop'))
      await operator.click(operator.button('Stop this tenant'))
      await operator.enter(page.getByLabel('Type runaway to confirm'), 'runaway')
      const dialog = page.getByRole('dialog', { name: 'Cancel what waits and runs' })
      await operator.click(dialog.getByRole('button', { name: 'Cancel what waits and runs' }))
      await dialog.getByText(/^\d\d executions cancelled · \d told to stop$/).waitFor()
    },
  },
  {
    question: 'Who changed its caps, when, and from what?',
    page: 'a tenant',
    async answer(operator) {
      await operator.openTenant('runaway')
      await operator.panel('Changes').getByText('dashboard').first().waitFor()
      await operator.panel('Changes').locator('del').getByText('5000').first().waitFor()
    },
  },
  {
    question: 'What did it use and cost this month?',
    page: 'a tenant',
    async answer(operator) {
      await operator.openTenant('acme')
      const row = operator.panel('Used in 30 days').getByRole('row').nth(1)
      await row.waitFor()
      expect(await row.innerText()).toMatch(/\d/)
    },
  },
  {
    question: 'How does it start again?',
    page: 'a tenant',
    async answer(operator) {
      await operator.openTenant('runaway')
      await operator.click(operator.button('Undo the stop'))
      await operator.click(operator.page.getByRole('dialog').getByRole('button', { name: 'Undo the stop' }))
      await operator.page.getByText('Active', { exact: true }).waitFor()
    },
  },
  {
    question: 'Which rows prove it, as a file?',
    page: 'Audit',
    async answer(operator) {
      await operator.goTo('Audit')
      const download = operator.page.waitForEvent('download')
      await operator.click(operator.page.getByRole('link', { name: /Export/ }))
      const rows = await readFile(await (await download).path(), 'utf8')
      for (const id of [ids.failed, ids.refused]) expect(rows).toContain(id)
    },
  },
]

browser.describe('an operator in an incident', () => {
  beforeAll(async () => {
    scene = await openUiScene({ workers: false })
    const { client, fleet } = scene
    const config = path.join(fleet.dataDir, 'cofferdam.config.yaml')
    await writeFile(config, 'prices:\n  process: {call: 0.001, cpu_second: 0.01, gb_second: 0.0001}\n')
    await fleet.startWorker({
      COFFERDAM_BACKENDS: 'process,docker',
      COFFERDAM_SLOTS: `${SLOTS}`,
      COFFERDAM_CONFIG: config,
      DOCKER_HOST: 'unix:///nowhere/docker.sock',
    })
    for (const [tenant, daily] of [
      ['runaway', 5000],
      ['tight', 100],
    ] as const)
      await client.tenants.create({
        tenant_id: tenant,
        min_isolation: 'none',
        caps: { tenant_daily: daily, concurrency: SLOTS },
      })
    const run = (tenant: string, source: string) =>
      client.run(request(tenant, source), { timeoutMs: 120_000 })
    await client.tenants.changeCaps('tight', { tenant_daily: 1 })
    await run('tight', 'print(1)')
    ids.refused = (await run('tight', 'print(2)')).execution_id
    await run('globex', FAILING)
    ids.failed = (await run('acme', FAILING)).execution_id
    for (let one = 0; one < SLOTS + 20; one += 1)
      ids.waiting = (await client.enqueue(request('runaway', SLEEPING))).execution_id
    await vi.waitFor(async () => {
      expect((await client.fleet.queue()).lanes.interactive.running).toBe(SLOTS)
    }, SOON)
    seen = await scene.open('/')
    // Wait until this load has signed in, so that the next load need not do it.
    await seen.page.getByRole('region', { name: 'Needs attention' }).waitFor()
  })
  afterAll(async () => {
    await seen?.[Symbol.asyncDispose]()
    await scene?.[Symbol.asyncDispose]()
  })

  browser.it.each(QUESTIONS)('finds out: $question', async ({ question, page, answer }) => {
    await seen.page.goto(`${scene.url}/`)
    await seen.page.getByRole('region', { name: 'Needs attention' }).waitFor()
    const operator = new Operator(seen.page)
    const began = performance.now()
    await answer(operator)
    console.info(`clicks: ${operator.clicks}, ${((performance.now() - began) / 1000).toFixed(1)} s`)
    expect(await documented()).toContainEqual({ question, page, clicks: operator.clicks })
  })

  browser.it('has a table in the documents with these questions and no others', async () => {
    const told = (await documented()).map(({ question }) => question)
    expect(told).toEqual(QUESTIONS.map(({ question }) => question))
  })
})

/** The rows of the table about an incident. */
async function documented(): Promise<Array<{ question: string; page: string; clicks: number }>> {
  const text = await readFile(DOCS, 'utf8')
  return [...text.matchAll(/^\| (.+\?) \| (.+) \| (\d+) \| [\d.]+ \|$/gm)].map(
    ([, question = '', page = '', clicks]) => ({ question, page, clicks: Number(clicks) }),
  )
}
