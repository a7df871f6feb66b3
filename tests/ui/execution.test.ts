/**
 * The page of one execution: why it waits or was refused, its timeline, live output and artifacts. Nothing of
 * a program runs in the page.
 */
import type { ExecutionRequest } from '@cofferdam/client'
import { needs } from '@cofferdam/embedded/needs'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import { LOOKS } from './looks.ts'
import { openUiScene, type Scene } from './scene.ts'

const browser = needs('chromium', 'process')
const SOON = { timeout: 60_000, interval: 50 }
let scene: Scene

const request = (source: string, more: Partial<ExecutionRequest> = {}): ExecutionRequest => ({
  tenant_id: 'acme',
  agent_id: 'analyst',
  program: { type: 'script', language: 'python', source },
  ...more,
})
const run = (one: ExecutionRequest) => scene.client.run(one, { timeoutMs: 120_000 })

/** A hostile program: its output, files and file names contain attacks. */
const HOSTILE = `
import struct, zlib
ATTACK = '<img src=x onerror=alert(1)><script>alert(2)</script>'
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
def png(width, height):
    rows = b''.join(b'\\0' + b'\\x20\\x60\\xc0' * width for _ in range(height))
    head = chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0))
    return b'\\x89PNG\\r\\n\\x1a\\n' + head + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')
open('good.png', 'wb').write(png(64, 32))
open('page.png', 'w').write(ATTACK)
open('draw.svg', 'w').write('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(3)</script></svg>')
open('page.html', 'w').write(ATTACK)
open('<b>&"x.csv', 'w').write('city,' + ATTACK + chr(10) + 'a,1' + chr(10))
print(ATTACK)
print('\\x1b[31mred\\x1b[0m \\x1b]8;;javascript:alert(4)\\x07link\\x1b]8;;\\x07 \\x1b[2J')
{ATTACK: [ATTACK], '__proto__': {'x': 1}}
`

const screenOf = (page: Page) => page.getByRole('log', { name: 'Output of the program' })

browser.describe('the page of an execution', () => {
  beforeAll(async () => {
    scene = await openUiScene()
  })
  afterAll(() => scene?.[Symbol.asyncDispose]())

  browser.it.each(LOOKS)(
    'shows everything of a hostile program and runs nothing of it, at %d px',
    async (width, scheme) => {
      const result = await run(
        request(HOSTILE, { artifacts: ['*.png', '*.svg', '*.html', '*.csv'], run_id: 'run-1' }),
      )
      expect(result.ok).toBe(true)
      await using seen = await scene.open(`/executions/${result.execution_id}`, { width, scheme })
      const { page } = seen
      await page.getByText('Succeeded').waitFor()
      await expect.poll(() => screenOf(page).innerText(), SOON).toContain('red link')
      expect(await screenOf(page).innerText()).toContain('<img src=x onerror=alert(1)>')
      expect(await screenOf(page).locator('.ansi-1').innerText()).toBe('red')
      await expect
        .poll(
          () =>
            page
              .locator('.preview img')
              .evaluateAll((all) => all.map((one) => Number(Reflect.get(one, 'naturalWidth')))),
          SOON,
        )
        .toEqual([64])
      await page.getByText('Its content is not the image that its name says.').waitFor()
      await page.getByRole('cell', { name: 'a', exact: true }).waitFor()
      for (const name of ['draw.svg', 'page.html', '<b>&"x.csv'])
        expect(await page.getByRole('link', { name, exact: true }).getAttribute('download')).toBe(name)
      await page.getByText('It ran on process').waitFor()
      await page.getByText('"__proto__"').or(page.getByText('__proto__')).first().waitFor()
      expect(await page.locator('main script, main iframe, main a[href^="javascript"]').count()).toBe(0)
      await seen.expectSound()
      seen.expectSilent()
    },
  )

  browser.it('has the spans of the trace in its timeline, after the wait', async () => {
    const { execution_id: id } = await run(request('print(1)'))
    // Worker and API store their spans independently of each other, so poll until all are there.
    const namesOf = async () => (await scene.client.executions.trace(id)).spans.map(({ name }) => name)
    await expect
      .poll(namesOf, SOON)
      .toEqual(
        expect.arrayContaining(['POST /v1/executions', 'send interactive', 'program.run', 'result.publish']),
      )
    const names = await namesOf()
    await using seen = await scene.open(`/executions/${id}`)
    const { page } = seen
    const steps = page.locator('.timeline tbody .step')
    await expect.poll(() => steps.allTextContents(), SOON).toEqual(['queue', ...names])
    await page.getByRole('button', { name: 'program.run' }).click()
    await page.locator('.step-facts').getByText('cofferdam.backend').waitFor()
    await page.getByText('Attempt 1, as stored').click()
    expect(await page.getByRole('link', { name: /Jaeger|↗/ }).count()).toBe(0)
    const stored = JSON.parse(await page.locator('.raw pre').innerText()) as { execution_id: string }
    expect(stored.execution_id).toBe(id)
    seen.expectSilent()
  })

  browser.it('zooms its timeline to a step by a button, and to a part by a drag', async () => {
    const { execution_id: id } = await run(request('import time; time.sleep(0.3)'))
    const hasSpans = async () =>
      (await scene.client.executions.trace(id)).spans.some(({ name }) => name === 'program.run')
    await expect.poll(hasSpans, SOON).toBe(true)
    await using seen = await scene.open(`/executions/${id}`)
    const { page } = seen
    const program = page.getByRole('row').filter({ has: page.getByRole('button', { name: 'program.run' }) })
    const widthOf = async () => Number(await program.locator('.bar-run').getAttribute('width'))
    const whole = page.getByRole('button', { name: 'Show all' })
    await program.getByRole('button').press('Enter')
    const before = await widthOf()
    expect(before).toBeLessThan(1000)
    await page.getByRole('button', { name: 'Zoom to this step' }).press('Enter')
    await expect.poll(widthOf, SOON).toBe(1000)
    await seen.expectSound()
    await whole.press('Enter')
    await expect.poll(widthOf, SOON).toBe(before)

    const box = (await program.locator('svg').boundingBox()) ?? expect.fail('the bar is not drawn')
    const start = Number(await program.locator('.bar-run').getAttribute('x')) / 1000
    const xAt = (share: number): number => box.x + box.width * (start + (before / 1000) * share)
    await page.mouse.move(xAt(0.25), box.y + 5)
    await page.mouse.down()
    await page.mouse.move(xAt(0.75), box.y + 5, { steps: 4 })
    await program.locator('.bar-chosen').waitFor()
    await page.mouse.up()
    await expect.poll(widthOf, SOON).toBe(1000)
    await whole.click()
    await expect.poll(widthOf, SOON).toBe(before)
    seen.expectSilent()
  })

  browser.it('shows what was used of each limit, and marks what came near its limit', async () => {
    const limits = { stdout_bytes: 100, stderr_bytes: 1000, cpu_time_ms: 20_000 }
    const source =
      "import sys\nsys.stdout.write('x' * 95)\nraise SystemExit(sys.stderr.write('y' * 500) - 500)"
    const result = await run(request(source, { limits }))
    expect(result.limits).toEqual({
      ...limits,
      soft_timeout_ms: 25_000,
      hard_timeout_ms: 30_000,
      memory_mib: 256,
      cpus: 1,
      pids: 128,
      disk_mib: 64,
    })
    await using seen = await scene.open(`/executions/${result.execution_id}`)
    const panel = seen.page.getByRole('region', { name: 'Use and cost' })
    const of = (name: string) => panel.getByRole('listitem').filter({ hasText: name })
    await of('Run time')
      .getByText(/ of 30 s$/)
      .waitFor()
    await of('CPU time')
      .getByText(/ of 20 s$/)
      .waitFor()
    await of('stdout').getByText('95 B of 100 B').waitFor()
    await of('stdout').getByText('▲ 95 %').waitFor()
    await of('stderr').getByText('50 %', { exact: true }).waitFor()
    expect(await panel.getByText('▲').count()).toBe(1)
    expect(await of('stderr').getByRole('meter').getAttribute('value')).toBe('500')
    await seen.expectSound()
    seen.expectSilent()
  })

  browser.it(
    'follows the output live, over a restart of the API, without loss and lets go when read',
    async () => {
      const source = `
import time
for number in range(100000):
    print('line', number, flush=True)
    time.sleep(0.02)
`
      const { execution_id: id } = await scene.client.enqueue(
        request(source, { limits: { hard_timeout_ms: 600_000 } }),
      )
      await using seen = await scene.open(`/executions/${id}`)
      const { page } = seen
      const numbers = async (): Promise<number[]> =>
        [...(await screenOf(page).innerText()).matchAll(/^line (\d+)$/gm)].map(([, number]) => Number(number))
      const last = async (): Promise<number> => (await numbers()).at(-1) ?? -1
      await expect.poll(last, SOON).toBeGreaterThan(20)
      await scene.restartApi()
      const before = await last()
      await expect.poll(last, SOON).toBeGreaterThan(before + 50)
      const all = await numbers()
      expect(all).toEqual(Array.from({ length: all.length }, (_, index) => index))

      await screenOf(page).evaluate((screen) => screen.scrollTo(0, 0))
      await page.getByRole('button', { name: 'Follow' }).waitFor()
      const held = await last()
      await expect.poll(last, SOON).toBeGreaterThan(held + 20)
      expect(await screenOf(page).evaluate((screen) => screen.scrollTop)).toBe(0)
      await page.getByRole('button', { name: 'Follow' }).click()
      await page.getByRole('button', { name: 'Follow' }).waitFor({ state: 'detached' })

      await page.getByRole('button', { name: 'Cancel' }).click()
      await page.getByRole('dialog').getByText('1 running execution will be told to stop').waitFor()
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel execution' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Close', exact: true }).last().click()
      await page.locator('.verdict').getByText('Cancelled').waitFor()
      seen.expectSilent()
    },
  )

  browser.inLongTier('keeps its size when a program prints 100,000 lines at once', async () => {
    const { execution_id: id } = await scene.client.enqueue(
      request(
        "import time\ntime.sleep(2)\nprint('\\n'.join(f'row {n}' for n in range(100000)))\ntime.sleep(5)",
      ),
    )
    await using seen = await scene.open(`/executions/${id}`)
    const { page } = seen
    await expect
      .poll(
        () =>
          screenOf(page)
            .innerText()
            .then((text) => text.includes('row 99999'))
            .catch(() => false),
        SOON,
      )
      .toBe(true)
    expect(await screenOf(page).locator('.line').count()).toBeLessThanOrEqual(5000)
    await page.getByText('The last 5,000 of 100,000 lines are shown.').waitFor()
    seen.expectSilent()
  })

  browser.it('says why one waits, why one was refused, and how tests failed', async () => {
    await scene.fleet.createTenant('stopped', { caps: { tenant_daily: 0 } })
    const refused = await run(request('1', { tenant_id: 'stopped' }))
    await using seen = await scene.open(`/executions/${refused.execution_id}`)
    await seen.page.getByText('Why it was refused').waitFor()
    await seen.page.getByText('Refused: cap used up').first().waitFor()

    const { execution_id: waits } = await scene.client.enqueue(request('1', { delay_ms: 600_000 }))
    await using other = await scene.open(`/executions/${waits}`)
    await other.page.getByText('Why it waits').waitFor()
    await scene.client.cancel(waits)
    await other.page.locator('.verdict').getByText('Cancelled').waitFor()

    const coloured = await run(
      request("raise ValueError('\\x1b[1;31mno such\\x1b[0m colour\\x1b]0;title\\x07')"),
    )
    expect(coloured.error_message).toContain('\u001b[1;31m')
    await using painted = await scene.open(`/executions/${coloured.execution_id}`)
    const why = painted.page.getByRole('region', { name: 'Why', exact: true })
    await why.getByText('ValueError: no such colour (/tmp').waitFor()
    expect(await why.innerText()).not.toContain('\u001b')

    const source =
      'import unittest\nclass T(unittest.TestCase):\n  def test_bad(self): self.assertEqual(1, 2)\n'
    const tests = await run({
      ...request(''),
      program: { type: 'tests', framework: 'unittest' },
      files: [{ path: 'test_x.py', content: source }],
    })
    await using third = await scene.open(`/executions/${tests.execution_id}`, { scheme: 'dark' })
    await third.page.getByText('1 failed', { exact: true }).waitFor()
    await third.page.getByText('test_x.py:3').first().waitFor()
    await third.expectSound()
  })

  browser.it('shows nothing of another tenant', async () => {
    const { execution_id: id } = await run(request('1', { tenant_id: 'globex' }))
    await using seen = await scene.open(`/executions/${id}`, { as: scene.keys.acme })
    await seen.page.getByRole('alert').getByText('not_found').waitFor()
    await using list = await scene.open('/executions?tenant=globex', { as: scene.keys.acme })
    await list.page.getByRole('alert').waitFor()
    expect(await list.page.locator('[data-row-link]').count()).toBe(0)
  })
})
