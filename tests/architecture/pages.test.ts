/** Checks every page of the repository: its links and anchors exist, and so do the commands that it names. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { COMMANDS } from '../../apps/cli/src/commands.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const pages = ['*.md', 'docs/**/*.md', '{apps,bench,examples,infra,libs,tests}/**/*.md']
  .flatMap((pattern) => globSync(pattern, { cwd: ROOT, exclude: ['**/node_modules'] }))
  .toSorted()
const read = (path: string): string => readFileSync(ROOT + path, 'utf8')

/** Makes an anchor as GitHub does: lower case, no punctuation, dashes for spaces. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')
const anchorsOf = (page: string): string[] =>
  [...page.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => anchorOf(heading))

const FENCE = /^```(\w*)\n([\s\S]*?)^```$/gm

/** Calls of our command in inline code or shell blocks. Lines that end with a backslash are joined. */
function callsIn(page: string): string[] {
  const shell = [...page.matchAll(FENCE)]
    .filter(([, language = '']) => ['', 'sh', 'bash', 'shell'].includes(language))
    .flatMap(([, , text = '']) => text.replaceAll(/\\\n\s*/g, ' ').split('\n'))
    .map((line) => /^(?:\$ )?(?:npx )?(cofferdam [a-z].*)$/.exec(line)?.[1])
  const inline = [...page.replaceAll(FENCE, '').matchAll(/`(?:npx )?(cofferdam [a-z][^`]*)`/g)].map(
    ([, call]) => call,
  )
  return [...shell, ...inline].filter((call) => call !== undefined)
}

describe('every page', () => {
  it('is checked', () => {
    expect(pages.length).toBeGreaterThan(60)
    expect(pages).toContain('README.md')
  })

  it.each(pages)('%s links only to existing files and sections', (page) => {
    for (const [, target = ''] of read(page)
      .replaceAll(FENCE, '')
      .matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      const [path = '', anchor] = target.split('#')
      const file = path === '' ? page : join(dirname(page), path)
      expect(existsSync(ROOT + file), target).toBe(true)
      if (anchor !== undefined) expect(anchorsOf(read(file)), target).toContain(anchor)
    }
  })

  it('names only existing commands and flags', async () => {
    const calls = pages.flatMap((page) => callsIn(read(page)).map((call) => ({ page, call })))
    expect(calls.length).toBeGreaterThan(100)
    const wrong: string[] = []
    for (const { page, call } of calls) {
      const [, name = ''] = call.split(/[\s;|&]+/)
      const known = Object.hasOwn(COMMANDS, name) ? await COMMANDS[name]?.load() : undefined
      // Arguments of the program follow `--`, and another program follows a pipe.
      const own = call.split(/ -- | \| |;|&&/)[0] ?? ''
      const flags = [...own.matchAll(/ --([a-z][a-z-]*)/g)].map(([, flag = '']) => flag)
      const strange = flags.filter(
        (flag) => !['json', 'help'].includes(flag) && known?.command.flags[flag] === undefined,
      )
      if (known === undefined || strange.length > 0) wrong.push(`${page}: ${call}`)
    }
    expect(wrong).toEqual([])
  })
})
