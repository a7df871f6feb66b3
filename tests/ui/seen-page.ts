/** A page of the dashboard as a person sees it, with everything that must stay silent recorded. */
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, Page } from 'playwright-core'
import { expect } from 'vitest'

export interface OpenOptions {
  /** The API key that signs in by a link. Null: nobody. */
  as?: string | null
  width?: 1280 | 390
  scheme?: 'light' | 'dark'
  /** Time zone of the browser. Default: the one of this machine. */
  timeZone?: string
  motion?: 'reduce' | 'no-preference'
}

export interface SeenPage extends AsyncDisposable {
  page: Page
  /** Expects that the console and the network had nothing to report since the page was opened. */
  expectSilent(): void
  /** Expects no finding of axe and nothing wider than the screen. */
  expectSound(): Promise<void>
}

/** The rules of WCAG 2.2, levels A and AA. */
const WCAG = ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa']
const PATIENCE_MS = 30_000

/** Opens a path in a context of its own: no cookie of another page is there. */
export async function openPage(
  browser: Browser,
  baseUrl: string,
  path: string,
  { as = null, width = 1280, scheme = 'light', timeZone, motion = 'no-preference' }: OpenOptions,
): Promise<SeenPage> {
  const context = await browser.newContext({
    viewport: { width, height: width === 390 ? 844 : 900 },
    colorScheme: scheme,
    reducedMotion: motion,
    ...(timeZone === undefined ? {} : { timezoneId: timeZone }),
  })
  const page = await context.newPage()
  page.setDefaultTimeout(PATIENCE_MS)
  const noises: string[] = []
  page.on('console', (message) => {
    // Chromium itself logs every answer of 400 and above. That a call failed is no fault of the page.
    if (!message.text().startsWith('Failed to load resource')) noises.push(`console: ${message.text()}`)
  })
  page.on('pageerror', (error) => noises.push(`error: ${error.message}`))
  page.on('request', (asked) => {
    const { protocol, origin } = new URL(asked.url())
    if (protocol !== 'blob:' && origin !== baseUrl) noises.push(`request to ${asked.url()}`)
  })
  const fragment = as === null ? '' : `#code=${await codeFor(baseUrl, as)}`
  await page.goto(baseUrl + path + fragment)
  return {
    page,
    expectSilent: () => expect(noises).toEqual([]),
    async expectSound() {
      // "Legacy" runs axe in the page alone. The default opens a blank page for each look and loads axe there
      // again, to gather what it found in frames. The dashboard has no frames.
      const found = await new AxeBuilder({ page })
        .options({ resultTypes: ['violations'] })
        .withTags(WCAG)
        .setLegacyMode()
        .analyze()
      const told = found.violations.map(
        ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join('\n')}`,
      )
      expect(told).toEqual([])
      const wider = await page.evaluate<number>('document.documentElement.scrollWidth - window.innerWidth')
      expect(wider).toBeLessThanOrEqual(0)
    },
    [Symbol.asyncDispose]: () => context.close(),
  }
}

/** A single-use code for this key, as the link of `npm start` has it. */
export async function codeFor(baseUrl: string, key: string): Promise<string> {
  const answer = await fetch(`${baseUrl}/ui/codes`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
  })
  expect(answer.status).toBe(201)
  return ((await answer.json()) as { code: string }).code
}
