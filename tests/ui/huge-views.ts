/** What the pages load and hold when very much waits, or a program prints very much. */
import { expect } from 'vitest'
import type { Page } from 'playwright-core'
import type { ExecutionRequest } from '@cofferdam/client'
import { executionRequestSchema } from '@cofferdam/contract'
import { openQueue } from '../../bench/flood.ts'
import type { Scene } from './scene.ts'

const SOON = { timeout: 120_000, interval: 200 }
/** Tenants `crowd-0` to `crowd-9` share what waits. */
const TENANTS = 10
/**
 * The most elements that a page may have. A page of rows, with everything around it, has less than half as
 * many.
 */
const MOST_NODES = 6000
/** The most rows and bytes of one answer that a page asks for. */
const MOST_ROWS = 500
const MOST_BYTES = 500_000

/** A page, and what shows that its first data is there. */
export interface View {
  path: string
  sign: RegExp
}

/** The list of what waits and runs. */
export const LIVE: View = { path: '/executions?status=live', sign: /^agent-/ }

/** The pages that have to do with what waits. */
export const VIEWS: readonly View[] = [
  LIVE,
  { path: '/executions', sign: /^agent-/ },
  { path: '/executions?status=live&tenant=crowd-3', sign: /^agent-/ },
  { path: '/queue', sign: /^crowd-/ },
  { path: '/', sign: /^Waiting$/ },
  { path: '/tenants', sign: /^crowd-/ },
  { path: '/tenants/crowd-3', sign: /^Used now$/ },
]

/** What one page took. For people: no test depends on the clock. */
export interface Figures {
  /** From the navigation to the first data. */
  firstMs: number
  nodes: number
  /** The largest answer of the API. */
  rows: number
  bytes: number
}

/** Enqueues `count` executions for which no worker is there, past the API, as fast as Redis takes them. */
export async function enqueueCrowd(scene: Scene, count: number): Promise<void> {
  await using queue = openQueue(scene.fleet)
  for (let n = 0; n < TENANTS; n += 1) {
    await scene.fleet.createTenant(`crowd-${n}`)
    const limits = { weight: 1, concurrency: null, max_queued: count }
    await queue.producer.setTenantLimits(`crowd-${n}`, limits)
  }
  const requests = Array.from({ length: count }, (_, n) =>
    executionRequestSchema.parse({
      tenant_id: `crowd-${n % TENANTS}`,
      agent_id: `agent-${n % 997}`,
      program: { type: 'script', language: 'python', source: `print(${n})` },
    }),
  )
  await queue.flood(requests)
}

/** The longest list in an answer, and its bytes. */
function sizeOf(body: string): { rows: number; bytes: number } {
  const lists = Object.values(JSON.parse(body) as Record<string, unknown>).filter((one) => Array.isArray(one))
  return { rows: Math.max(0, ...lists.map((list) => list.length)), bytes: body.length }
}

const nodesOf = (page: Page): Promise<number> => page.evaluate('document.querySelectorAll("*").length')

/**
 * Opens a page and waits until `sign` is there and its lists were read again. Expects that the rows and bytes
 * of every answer and the nodes of the page are bounded.
 */
export async function seeBounded(scene: Scene, { path, sign }: View): Promise<Figures> {
  await using seen = await scene.open('/settings-of-nothing')
  const { page } = seen
  await page.getByText('There is no page at this address.').waitFor()
  const answers: Promise<{ path: string; rows: number; bytes: number }>[] = []
  page.on('response', (answer) => {
    const { pathname, search } = new URL(answer.url())
    if (!pathname.startsWith('/v1/') || answer.status() !== 200) return
    const read = answer.text().then(
      (body) => ({ path: pathname + search, ...sizeOf(body) }),
      () => ({ path: pathname + search, rows: 0, bytes: 0 }),
    )
    answers.push(read)
  })
  const startedMs = performance.now()
  await page.goto(scene.url + path, { waitUntil: 'commit' })
  await page.getByRole('main').getByText(sign).first().waitFor()
  const firstMs = performance.now() - startedMs
  // Lists are read again and again: what a page holds must not grow with that.
  await expect.poll(() => answers.length, SOON).toBeGreaterThanOrEqual(5)
  const all = await Promise.all(answers)
  for (const answer of all) {
    expect([answer.path, answer.rows <= MOST_ROWS]).toEqual([answer.path, true])
    expect([answer.path, answer.bytes <= MOST_BYTES]).toEqual([answer.path, true])
  }
  const nodes = await nodesOf(page)
  expect(nodes).toBeGreaterThan(50)
  expect(nodes).toBeLessThan(MOST_NODES)
  await seen.expectSound()
  seen.expectSilent()
  const most = (of: (answer: { rows: number; bytes: number }) => number) => Math.max(...all.map(of))
  return { firstMs, nodes, rows: most(({ rows }) => rows), bytes: most(({ bytes }) => bytes) }
}

/** Prints `lines` numbered lines of 100 characters as fast as it can, then waits to be cancelled. */
export const floodOf = (lines: number): ExecutionRequest => ({
  tenant_id: 'acme',
  agent_id: 'flood',
  program: {
    type: 'script',
    language: 'python',
    source: `
import sys, time
time.sleep(3)
for n in range(0, ${lines}, 1000):
    sys.stdout.write(''.join(f'row {m} '.ljust(99, '.') + chr(10) for m in range(n, n + 1000)))
sys.stdout.flush()
time.sleep(300)
`,
  },
  limits: { hard_timeout_ms: 600_000, soft_timeout_ms: 590_000 },
})

/** What a page took while output flowed. */
export interface FlowFigures {
  frames: number
  medianMs: number
  worstMs: number
  longTasks: number
  longestTaskMs: number
  heapMib: number
  lines: number
  nodes: number
}

const MEASURE = `
window.flow = { frames: [], tasks: [] }
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.flow.tasks.push(entry.duration)
}).observe({ type: 'longtask' })
let last = performance.now()
const frame = () => {
  const now = performance.now()
  window.flow.frames.push(now - last)
  last = now
  requestAnimationFrame(frame)
}
requestAnimationFrame(frame)
`

/** Watches a flood of output until its line `last` is seen, and expects that the page stayed small. */
export async function watchFlood(
  scene: Scene,
  request: ExecutionRequest,
  last: string,
): Promise<FlowFigures> {
  await scene.fleet.startWorker({ COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '4' })
  await using _stopped = { [Symbol.asyncDispose]: () => scene.fleet.stopWorkers() }
  const { execution_id: id } = await scene.client.enqueue(request)
  await using seen = await scene.open(`/executions/${id}`)
  const { page } = seen
  const screen = page.getByRole('log', { name: 'Output of the program' })
  await screen.waitFor({ timeout: SOON.timeout })
  await page.evaluate(MEASURE)
  const tail = () => screen.evaluate((node) => node.textContent?.slice(-2000) ?? '')
  await expect.poll(tail, SOON).toContain(last)
  const { frames, tasks } = await page.evaluate<{ frames: number[]; tasks: number[] }>('window.flow')
  const lines = await screen.locator('.line').count()
  expect(lines).toBeGreaterThan(4000)
  expect(lines).toBeLessThanOrEqual(5000)
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('HeapProfiler.collectGarbage')
  const { usedSize } = await cdp.send('Runtime.getHeapUsage')
  expect(usedSize).toBeLessThan(200 << 20)
  seen.expectSilent()
  const sorted = frames.toSorted((a, b) => a - b)
  const figures = {
    frames: frames.length,
    medianMs: sorted[Math.floor(sorted.length / 2)] ?? 0,
    worstMs: sorted.at(-1) ?? 0,
    longTasks: tasks.length,
    longestTaskMs: Math.max(0, ...tasks),
    heapMib: usedSize / (1 << 20),
    lines,
    nodes: await nodesOf(page),
  }
  await scene.client.cancel(id)
  return figures
}
