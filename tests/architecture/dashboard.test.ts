/**
 * Checks that the sources of the pages contain nothing that their Content-Security-Policy forbids, and that
 * only named files keep something in the browser.
 */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ISOLATIONS } from '@cofferdam/contract'
import { expect, it } from 'vitest'
import { ISOLATIONS as OFFERED } from '../../apps/dashboard/src/pages/playground/request-of.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** The only file that may use sessionStorage. It keeps the draft of the playground for its tab. */
const KEEPS_DRAFT = 'apps/dashboard/src/address/kept-draft.ts'

/** Ways to turn text into markup, code or style, and to keep something in the browser. */
const FORBIDDEN =
  /dangerouslySetInnerHTML|\b(?:inner|outer)HTML\b|insertAdjacentHTML|document\.write|\beval\(|new Function\(|srcdoc|\bstyle=|<style|cssText|javascript:|\b(?:local|session)Storage\b|indexedDB/

/**
 * The only two files that may use localStorage. They keep how the pages look. tests/ui/settings.test.ts
 * checks everything that they keep.
 */
const KEEPS = ['apps/dashboard/src/choices/choices.ts', 'apps/dashboard/src/choices/first-paint.ts']

const problemsOf = (path: string, text: string): string[] =>
  text
    .split('\n')
    .map((line) => (KEEPS.includes(path) ? line.replaceAll('window.localStorage', '') : line))
    .map((line) => (path === KEEPS_DRAFT ? line.replaceAll('sessionStorage.', '') : line))
    .flatMap((line, index) => (FORBIDDEN.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : []))

it.each([
  '<p dangerouslySetInnerHTML={{ __html: text }} />',
  'node.innerHTML = text',
  '<p style="color: red">',
  '<p style={{ color }} />',
  'localStorage.setItem("key", key)',
  'eval(text)',
  'window.sessionStorage.setItem("key", key)',
])('objects to %s', (line) => {
  expect(problemsOf('x.tsx', line)).toHaveLength(1)
})

it('lets one file keep something, and only for its tab', () => {
  expect(problemsOf(KEEPS_DRAFT, 'sessionStorage.setItem(NAME, text)')).toEqual([])
  expect(problemsOf('x.tsx', 'sessionStorage.setItem(NAME, text)')).toHaveLength(1)
  expect(problemsOf(KEEPS_DRAFT, 'localStorage.setItem(NAME, text)')).toHaveLength(1)
})

it('the pages make no markup out of text, have no inline style and keep only their look and a draft', () => {
  const files = globSync('apps/dashboard/{index.html,src/**/*.{ts,tsx}}', { cwd: ROOT })
  expect(files.length).toBeGreaterThan(50)
  const sources = files.filter((file) => !file.endsWith('.test.ts'))
  expect(sources.flatMap((file) => problemsOf(file, readFileSync(`${ROOT}/${file}`, 'utf8')))).toEqual([])
})

it('the page itself has no inline script', () => {
  const page = readFileSync(`${ROOT}/apps/dashboard/index.html`, 'utf8')
  expect(page.match(/<script(?![^>]*\bsrc=)/)).toBeNull()
  expect(page).not.toMatch(/\son\w+=/)
})

// The playground has its own list: that of the contract would load zod, which no page does.
it('the playground offers the isolation levels of the contract', () => {
  expect(OFFERED).toEqual(ISOLATIONS)
})
