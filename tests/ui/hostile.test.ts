/** Names, outputs, values and files that try to break out of their place on the page. */
import type { ExecutionRequest } from '@cofferdam/client'
import { needs } from '@cofferdam/embedded/needs'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import { LOOKS } from './looks.ts'
import { openUiScene, type Scene } from './scene.ts'

const browser = needs('chromium', 'process-namespaces')
const SOON = { timeout: 60_000, interval: 50 }
/**
 * A name as long as the contract allows. It begins with the given word, which differs from field to field.
 */
const long = (name: string): string => `${name}@${'x'.repeat(127 - name.length)}`
const HTML = '<img src=x onerror=alert(1)>'
/** Contains a character that reverses the text direction, HTML, and 60 combining marks on one letter. */
const ODD = `\u202Egpj.exe ${HTML} Z${'\u0301'.repeat(60)}`
let scene: Scene

const request = (source: string, more: Partial<ExecutionRequest> = {}): ExecutionRequest => ({
  tenant_id: 'acme',
  agent_id: long('agent'),
  user_id: long('user'),
  run_id: long('run'),
  tool_call_id: long('call'),
  program: { type: 'script', language: 'python', source },
  ...more,
})

const OUTPUT = `
import os, sys
out = sys.stdout.buffer
out.write(b'nul \\x00 bad \\xff\\xfe\\xc3( end\\n')
out.write(b'\\x1b]0;stolen title\\x07\\x1b]2;stolen\\x1b\\\\titled\\n')
out.write(b'\\x1b[?1049h\\x1b[2J\\x1b[1;1H\\x1b[8mhidden\\x1b[0m \\x1bc reset\\n')
out.write(b'\\x1b]8;id=1;http://evil.example/\\x1b\\\\linked\\x1b]8;;\\x1b\\\\\\n')
out.write('\\u202etfel ot thgir\\n'.encode())
out.write(('Z' + '\\u0301' * 500 + ' marks\\n').encode())
out.write(b'y' * 100_000 + b'\\nafter the long line\\n')
for row in range(300):
    out.write(b''.join(b'\\x1b[3%dm*' % (n % 8) for n in range(300)) + b'\\x1b[0m\\n')
out.write(b'w' * 100_000)
out.flush()
sys.stderr.write('done')
`

const FILES = `
import os, struct, zlib
ODD = '\\u202egpj.exe Z' + '\\u0301' * 60
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
def png(width, height):
    head = chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0))
    rows = chunk(b'IDAT', zlib.compress(b'\\0' * 1000))
    return b'\\x89PNG\\r\\n\\x1a\\n' + head + rows + chunk(b'IEND', b'')
open('huge.png', 'wb').write(png(60_000, 60_000))
open('lies.gif', 'wb').write(b'GIF89a' + b'\\xff' * 400)
open('wide.csv', 'w').write(','.join('c%d' % n for n in range(1_000_000)) + chr(10) + '=1+1,x' + chr(10))
open('formula.csv', 'w').write('=HYPERLINK("http://evil.example";"x"),@SUM(1)' + chr(10) + '+1,-1' + chr(10))
open('deep.json', 'w').write('[' * 10_000 + ']' * 10_000)
open(ODD + '.csv', 'w').write('a' + chr(10) + ODD + chr(10))
open('L' * 250 + '.txt', 'w').write('L' * 300_000)
open('<img src=x onerror=alert(1)>.txt', 'w').write('<script>alert(2)</script>')
open('draw.svg', 'w').write('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(3)"/>')
raise RuntimeError('<b>' + ODD + '</b>' + 'e' * 5000)
`

/** Elements of the page from which text sticks out to the side. */
const sticking = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`[...document.querySelectorAll('main *')]
    // The heads of tables are not seen on a narrow screen.
    .filter((node) => node.clientWidth > 1 && node.closest('thead') === null)
    .filter((node) => node.scrollWidth > node.clientWidth + 1)
    .filter((node) => getComputedStyle(node).overflowX === 'visible')
    .map((node) => node.outerHTML.slice(0, 200))`)

const screenOf = (page: Page) => page.getByRole('log', { name: 'Output of the program' })

browser.describe('what a program or a person made up', () => {
  beforeAll(async () => {
    scene = await openUiScene()
  })
  afterAll(() => scene?.[Symbol.asyncDispose]())

  const ids = new Map<string, string>()
  /** Runs a program only once, because the tests show its page in several sizes and colours. */
  const ran = async (name: string, one: ExecutionRequest): Promise<string> => {
    const known = ids.get(name)
    if (known !== undefined) return known
    const { execution_id: id } = await scene.client.run(one, { timeoutMs: 120_000 })
    ids.set(name, id)
    return id
  }

  browser.inLongTier.each(LOOKS)('stays text in its place: output, at %d px', async (width, scheme) => {
    const id = await ran('output', request(OUTPUT))
    await using seen = await scene.open(`/executions/${id}`, { width, scheme })
    const { page } = seen
    await expect.poll(() => screenOf(page).innerText(), SOON).toContain('after the long line')
    const text = await screenOf(page).innerText()
    expect(text).toContain('nul  bad \ufffd\ufffd\ufffd( end')
    expect(text).toContain('\ntitled\n')
    expect(text).toContain('\nhidden  reset\n')
    expect(text).toContain('\nlinked\n')
    expect(text).toContain('\ufffdtfel ot thgir')
    expect(text).toContain('… the rest of the line is left out')
    expect(text).not.toContain('y'.repeat(2001))
    expect(await page.title()).not.toContain('stolen')
    expect(await screenOf(page).locator('a').count()).toBe(0)
    const nodes = await page.evaluate<number>('document.querySelectorAll("*").length')
    expect(nodes).toBeLessThan(60_000)
    expect(await sticking(page)).toEqual([])
    await seen.expectSound()
    seen.expectSilent()
  })

  browser.it.each(LOOKS)('stays text in its place: files and failures, at %d px', async (width, scheme) => {
    const id = await ran('files', request(FILES, { artifacts: ['*'] }))
    await using seen = await scene.open(`/executions/${id}`, { width, scheme })
    const { page } = seen
    await page.getByText('Artifacts').first().waitFor()
    await page.evaluate(
      `document.querySelectorAll('details.preview:not([open]) > summary').forEach((node) => node.click())`,
    )
    await expect.poll(() => page.locator('details.preview').getByText('Loading').count(), SOON).toBe(0)
    const refusals = page.getByText('Its content is not the image that its name says.')
    await expect.poll(() => refusals.count(), SOON).toBe(2)
    await page.getByRole('columnheader', { name: 'c49', exact: true }).waitFor()
    expect(await page.getByRole('columnheader', { name: 'c50', exact: true }).count()).toBe(0)
    await page.getByText('<script>alert(2)</script>').waitFor()
    await page.getByRole('columnheader', { name: '=HYPERLINK' }).waitFor()
    expect(await page.locator('main').innerText()).not.toMatch(/[\u202a-\u202e]/)
    expect(await page.locator('main img, main script, main iframe, main object').count()).toBe(0)
    expect(await sticking(page)).toEqual([])
    await seen.expectSound()
    seen.expectSilent()
  })

  browser.inLongTier('stays text in its place: a value of any depth and width', async () => {
    const nest = (levels: number): ExecutionRequest => request(`v = 1\nfor _ in range(${levels}): v = [v]\nv`)
    // A program may also write a value of its own to the pipe that carries the value.
    const forged = request(`
import os
text = b'[' * 10_000 + b']' * 10_000
try: os.write(199, b'V' + len(text).to_bytes(4, 'little') + text)
except OSError: pass
`)
    const values: boolean[] = []
    for (const one of [nest(60), nest(10_000), forged]) {
      const result = await scene.client.run(one, { timeoutMs: 120_000 })
      values.push(result.value !== undefined)
      await using seen = await scene.open(`/executions/${result.execution_id}`)
      const { page } = seen
      await page.locator('.verdict').waitFor()
      const nodes = page.locator('.json-node')
      await expect.poll(() => nodes.count(), SOON).toBe(result.value === undefined ? 0 : 4)
      await seen.expectSound()
      seen.expectSilent()
    }
    expect(values.slice(0, 2)).toEqual([true, false])
    const wide = await scene.client.run(request('[[[0] * 20] * 20] * 20'), { timeoutMs: 120_000 })
    expect(wide.ok).toBe(true)
    await using seen = await scene.open(`/executions/${wide.execution_id}`, { width: 390 })
    await seen.page.locator('.json-node').nth(20).waitFor()
    expect(await seen.page.locator('.json-leaf, .json-node').count()).toBeLessThan(1000)
    await seen.expectSound()
  })

  browser.it.each(LOOKS)('stays text in its place: names, at %d px', async (width, scheme) => {
    if (!ids.has('names')) {
      const created = await scene.client.routines.create({
        name: ODD.padEnd(200, 'N'),
        request: request('print(1)', { tool_call_id: 'call' }),
        schedule: null,
      })
      ids.set('names', created.routine_id)
      await scene.client.run(
        request(`open('${'n'.repeat(200)}', 'w').write('x'); open(${JSON.stringify(ODD)}, 'w')`, {
          session: { key: long('session') },
        }),
        { timeoutMs: 120_000 },
      )
      const waits = await scene.client.enqueue(request('1', { delay_ms: 3_600_000 }))
      await scene.client.cancel(waits.execution_id, ODD.repeat(3).slice(0, 200))
      ids.set('cancelled', waits.execution_id)
    }
    await using seen = await scene.open('/routines?tenant=acme', { width, scheme })
    const { page } = seen
    const look = async (path: string, sign: string): Promise<void> => {
      if (path !== '') await page.goto(scene.url + path)
      await page.getByText(sign).first().waitFor()
      expect([path, await sticking(page)]).toEqual([path, []])
      expect(await page.locator('main img').count()).toBe(0)
      await seen.expectSound()
    }
    await look('', 'onerror')
    await look(`/routines/${ids.get('names')}`, 'onerror')
    await look('/executions?tenant=acme', 'agent@')
    await look(`/executions/${ids.get('cancelled')}`, 'onerror')
    await look('/audit?tenant=acme', 'agent@')
    await look('/sessions?tenant=acme', 'session@')
    await page.getByRole('link', { name: 'session@' }).click()
    await page.getByRole('button', { name: 'List the files' }).click()
    await look('', 'nnnnn')
    seen.expectSilent()
  })
})
