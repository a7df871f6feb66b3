/** Pages of other origins in the browser of a person who is signed in, and a cookie that was stolen. */
import { createHash } from 'node:crypto'
import type { ExecutionId } from '@cofferdam/client'
import { isLongTier, needs } from '@cofferdam/embedded/needs'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import {
  readAll,
  sendFetches,
  sendForms,
  startForeignServer,
  type Change,
  type ForeignServer,
} from './foreign-page.ts'
import { openUiScene, type Scene } from './scene.ts'
import { codeFor, type SeenPage } from './seen-page.ts'

const browser = needs('chromium')
const SOON = { timeout: 60_000, interval: 100 }
const COOKIE = '__Host-cofferdam'
let scene: Scene
let foreign: ForeignServer
/** Receives the same attacks without any protection, which shows what they send. */
let decoy: ForeignServer
let waiting: ExecutionId

/** What the attacker wants to change. The last ones would end or replace the sign-in. */
const changes = (): Change[] => [
  { method: 'POST', path: `/v1/executions/${waiting}/cancel`, body: { reason: 'evil' } },
  { method: 'POST', path: '/v1/tenants/acme/cancel', body: { state: 'all', reason: 'evil' } },
  { method: 'PATCH', path: '/v1/tenants/acme/caps', body: { tenant_daily: 0 } },
  { method: 'POST', path: '/v1/tenants/acme/keys', body: { label: 'evil', read_only: false } },
  { method: 'POST', path: '/ui/codes', body: {} },
  { method: 'POST', path: '/ui/session', body: { api_key: scene.keys.acme } },
  { method: 'DELETE', path: '/ui/session', body: {} },
]
/** What the attacker wants to read. */
const paths = (): string[] => [
  '/',
  '/tenants/acme',
  '/ui/session',
  '/v1/executions?tenant_id=acme',
  `/v1/executions/${waiting}/events`,
  '/v1/tenants/acme/keys',
]

/** Everything that an attack could have changed. */
async function whatIs() {
  const events = await Array.fromAsync(scene.client.tenants.policyEvents('acme'))
  return {
    status: (await scene.client.get(waiting))?.status,
    executions: (await Array.fromAsync(scene.client.executions.list())).length,
    caps: await scene.client.tenants.caps('acme'),
    keys: (await scene.client.tenants.keys('acme')).map(({ id, revoked_at: at }) => [id, at]),
    events: events.length,
  }
}

const cookieOf = async (page: Page) =>
  (await page.context().cookies(scene.url)).find(({ name }) => name === COOKIE)

/** Who is signed in, asked from within the page. */
const whoIs = (page: Page): Promise<{ scope: string; key_id: string }> =>
  page.evaluate(`fetch('/ui/session').then((answer) => answer.json())`)

const openVictim = async (): Promise<SeenPage> => {
  const seen = await scene.open('/executions?tenant=acme')
  await seen.page.getByTitle(waiting).waitFor()
  return seen
}

browser.describe('a page of another origin', () => {
  beforeAll(async () => {
    scene = await openUiScene({ workers: false })
    foreign = await startForeignServer()
    decoy = await startForeignServer()
    const { execution_id: id } = await scene.client.enqueue({
      tenant_id: 'acme',
      agent_id: 'analyst',
      program: { type: 'script', language: 'python', source: 'print(1)' },
      delay_ms: 3_600_000,
    })
    waiting = id
  })
  afterAll(async () => {
    await foreign?.[Symbol.asyncDispose]()
    await decoy?.[Symbol.asyncDispose]()
    await scene?.[Symbol.asyncDispose]()
  })

  browser.it.each(['near', 'far'] as const)('changes nothing and reads nothing, from %s', async (where) => {
    await using seen = await openVictim()
    const { page } = seen
    const before = await whatIs()
    const attacker = await page.context().newPage()
    await attacker.goto(foreign[where])
    const asked = changes()

    // The same attacks arrive at a server without protection. The browser sends the cookie only if the
    // attacking page differs in its port alone.
    decoy.heard.length = 0
    const forms = await sendForms(attacker, decoy.near, asked)
    expect(forms).toBe(3 * asked.length)
    expect((await sendFetches(attacker, decoy.near, asked)).filter((told) => told === 'opaque')).toHaveLength(
      2 * asked.length,
    )
    await expect
      .poll(() => decoy.heard.filter(({ method }) => method === 'POST').length, SOON)
      .toBeGreaterThanOrEqual(forms + 3 * asked.length)
    expect(decoy.heard.some(({ method }) => method === 'OPTIONS')).toBe(true)
    expect(decoy.heard.some(({ hasCookie }) => hasCookie)).toBe(where === 'near')

    expect(await sendForms(attacker, scene.url, asked)).toBe(forms)
    const framed = () =>
      attacker.frames().filter((frame) => frame.url() === 'chrome-error://chromewebdata/').length
    await expect.poll(framed, SOON).toBe(forms)
    const told = await sendFetches(attacker, scene.url, asked)
    expect(new Set(told)).toEqual(new Set(['nothing']))
    const learned = await readAll(attacker, scene.url, paths())
    expect(learned.length).toBeGreaterThanOrEqual(8 * paths().length)
    expect(learned.filter((one) => !one.endsWith(': nothing'))).toEqual([])

    expect(await whatIs()).toEqual(before)
    expect(await whoIs(page)).toMatchObject({ scope: 'admin' })
    seen.expectSilent()
  })

  browser.it('tries what the dashboard itself can do', async () => {
    await using seen = await openVictim()
    const own = `{ method: 'POST', headers: { 'content-type': 'application/json', 'x-cofferdam-ui': '1' },
      body: JSON.stringify({ label: 'own', read_only: true }) }`
    const status = await seen.page.evaluate(
      `fetch('/v1/tenants/acme/keys', ${own}).then(({ status }) => status)`,
    )
    expect(status).toBe(201)
  })

  browser.it.each(['near', 'far'] as const)('frames nothing and holds no window, from %s', async (where) => {
    await using seen = await openVictim()
    const attacker = await seen.page.context().newPage()
    await attacker.goto(foreign[where])
    for (const path of ['/', '/tenants/acme', '/v1/executions?tenant_id=acme', '/docs']) {
      await attacker.evaluate(`new Promise((resolve) => {
        const frame = document.createElement('iframe')
        frame.src = ${JSON.stringify(scene.url + path)}
        frame.addEventListener('load', resolve)
        document.body.replaceChildren(frame)
      })`)
      expect(attacker.frames().map((frame) => frame.url())).toEqual([
        `${foreign[where]}/`,
        'chrome-error://chromewebdata/',
      ])
    }
    const opened = seen.page.context().waitForEvent('page')
    await attacker.evaluate(`window.held = window.open(${JSON.stringify(`${scene.url}/tenants/acme`)})`)
    const window = await opened
    await window.getByRole('heading', { level: 1, name: 'acme' }).waitFor()
    expect(await window.evaluate('window.opener')).toBe(null)
    const before = await whatIs()
    await attacker.evaluate(
      `for (const message of ['x', { code: 'x' }, null]) held.postMessage(message, '*')`,
    )
    expect(await attacker.evaluate('[held.closed, held.length]')).toEqual([true, 0])
    await expect(attacker.evaluate('held.document')).rejects.toThrow('SecurityError')
    expect(await whatIs()).toEqual(before)
  })

  browser.it('sees a refusal where it leads a person to an address of the API', async () => {
    await using seen = await openVictim()
    const before = await whatIs()
    const attacker = await seen.page.context().newPage()
    const asked = [
      `/v1/executions/${waiting}/cancel`,
      '/v1/tenants/acme/keys',
      '/v1/executions?tenant_id=acme',
      '/ui/session',
    ]
    for (const where of [foreign.near, foreign.far])
      for (const path of asked) {
        await attacker.goto(where)
        const answer = attacker.waitForResponse((one) => one.url() === scene.url + path)
        await attacker.evaluate(`location.href = ${JSON.stringify(scene.url + path)}`)
        expect([path, [401, 403, 405].includes((await answer).status())]).toEqual([path, true])
        await attacker.waitForURL(scene.url + path)
        expect(await attacker.content()).not.toMatch(/"(executions|keys|label|scope)"/)
      }
    expect(await whatIs()).toEqual(before)
    expect(await whoIs(seen.page)).toMatchObject({ scope: 'admin' })
  })

  browser.it.each(isLongTier() ? ([1280, 390] as const) : ([390] as const))(
    'signs a person in as somebody else only if they agree, at %d px',
    async (width) => {
      await using seen = await scene.open('/executions', { width })
      const { page } = seen
      await page.getByTitle(waiting).waitFor()
      const mine = await whoIs(page)
      const address = async () => `${scene.url}/executions#code=${await codeFor(scene.url, scene.keys.acme)}`
      const open = async (url: string) => {
        await page.goto(foreign.far)
        await page.evaluate(`location.href = ${JSON.stringify(url)}`)
      }
      const dialog = page.getByRole('dialog', { name: 'Sign in with the link?' })
      const link = await address()
      await open(link)
      await dialog.getByText(`this browser is signed in with ${mine.key_id}`).waitFor()
      expect(page.url()).toBe(`${scene.url}/executions`)
      await seen.expectSound()
      await dialog.getByRole('button', { name: 'Stay signed in' }).click()
      await dialog.waitFor({ state: 'detached' })
      await page.getByTitle(waiting).waitFor()
      expect(await whoIs(page)).toEqual({ ...mine, expires_at: expect.any(String) })

      // Staying signed in did not use up the link, so it can still be used.
      await open(link)
      await dialog.getByRole('button', { name: 'Use the link' }).click()
      await dialog.waitFor({ state: 'detached' })
      await expect.poll(() => whoIs(page), SOON).toMatchObject({ scope: 'tenant', tenant_id: 'acme' })
      // A link with the key that is signed in already opens without a question.
      await open(await address())
      await page.getByTitle(waiting).waitFor()
      expect(await dialog.count()).toBe(0)
    },
  )

  browser.it(
    'finds a cookie that has its flags, is read by no script, and is no value from before the sign-in',
    async () => {
      await using seen = await scene.open('/', { as: null })
      const { page } = seen
      const planted = createHash('sha256').update('planted').digest('base64url')
      const { hostname } = new URL(scene.url)
      const cookie = { name: COOKIE, domain: hostname, path: '/', secure: true, sameSite: 'Strict' } as const
      await page.context().addCookies([{ ...cookie, value: planted }])
      await page.reload()
      await page.getByLabel('API key').fill(scene.keys.admin)
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      const after = await cookieOf(page)
      expect(after).toMatchObject({ ...cookie, httpOnly: true })
      expect(after?.value).toMatch(/^[\w-]{43}$/)
      expect(after?.value).not.toBe(planted)
      const days = ((after?.expires ?? 0) * 1000 - Date.now()) / 86_400_000
      expect(days).toBeGreaterThan(6.9)
      expect(days).toBeLessThan(7.1)
      expect(await page.evaluate('document.cookie')).toBe('')
      expect(await page.evaluate(`cookieStore.get('${COOKIE}')`)).toBe(null)
      const own = { cookie: `${COOKIE}=${planted}`, 'sec-fetch-site': 'same-origin' }
      expect((await fetch(`${scene.url}/ui/session`, { headers: own })).status).toBe(401)
    },
  )

  browser.it('gets nothing for a stolen cookie, which is worth nothing after a sign-out', async () => {
    await using seen = await openVictim()
    const { page } = seen
    const cookie = `${COOKIE}=${(await cookieOf(page))?.value}`
    const before = await whatIs()
    const status = async (method: string, path: string, headers: Record<string, string>) => {
      const sent = { 'content-type': 'application/json', 'x-cofferdam-ui': '1', cookie, ...headers }
      const body = method === 'GET' ? {} : { body: JSON.stringify({ reason: 'stolen' }) }
      const answer = await fetch(scene.url + path, { method, headers: sent, ...body })
      await answer.arrayBuffer()
      return answer.status
    }
    for (const headers of [
      {},
      { origin: 'https://evil.example' },
      { origin: foreign.near },
      { origin: foreign.far },
      { origin: 'null' },
      { origin: scene.url, 'sec-fetch-site': 'same-site' },
    ])
      for (const [method, path] of [
        ['GET', '/v1/executions'],
        ['POST', `/v1/executions/${waiting}/cancel`],
        ['DELETE', '/ui/session'],
      ] as const)
        expect([path, headers, await status(method, path, headers as Record<string, string>)]).toEqual([
          path,
          headers,
          403,
        ])
    expect(await whatIs()).toEqual(before)
    expect(await status('GET', '/v1/executions', { origin: scene.url })).toBe(200)
    await page.getByLabel('Account').click()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('API key').waitFor()
    expect(await status('GET', '/v1/executions', { origin: scene.url })).toBe(401)
    expect(await cookieOf(page)).toBeUndefined()
  })
})
