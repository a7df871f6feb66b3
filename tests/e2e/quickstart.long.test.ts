/** Runs docs/quickstart.md. Each `sh` block must succeed and print what the `text` block after it shows. */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect } from 'vitest'
import { ROOT, startUp, type Up } from './up.ts'

interface Step {
  commands: string
  /** The expected output, in which `…` stands for anything. Undefined where the page shows nothing. */
  shown: string | undefined
}

const page = await readFile(path.join(ROOT, 'docs/quickstart.md'), 'utf8')
const steps: Step[] = [...page.matchAll(/```sh\n(.*?)```\n(?:\n```text\n(.*?)```)?/gs)].map(
  ([, commands = '', shown]) => ({ commands, shown }),
)

let up: Up
beforeAll(async () => {
  up = await startUp()
})
afterAll(() => up.stop())

needs('process').it('the commands of the whole page work in one shell', async () => {
  expect(steps.length).toBeGreaterThan(5)
  const script = [
    'set -eo pipefail',
    // A terminal shows stdout and stderr.
    'exec 2>&1',
    // npx would first look the command up, and find the same file.
    'npx() { "$@"; }',
    ...steps.flatMap(({ commands }, i) => [adapt(commands), `printf '\\n--- end of step ${i} ---\\n'`]),
  ].join('\n')
  const { stdout, code } = await up.run('bash', ['-c', script])
  expect(code, stdout).toBe(0)
  const printed = stdout.split(/\n--- end of step \d+ ---\n/)
  for (const [i, { commands, shown }] of steps.entries())
    if (shown !== undefined) expect(printed[i]?.trim(), commands).toMatch(patternOf(shown))
})

/**
 * The page uses the address and data directory of a default `npm start`. Replaces them by those of this
 * test's fleet.
 */
const adapt = (commands: string): string =>
  commands.replaceAll('http://127.0.0.1:7070', up.url).replaceAll('.data/', `${up.dataDir}/`)

/** `…` on a line of its own stands for any number of lines, elsewhere for any text. */
function patternOf(shown: string): RegExp {
  const escaped = shown.trim().replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
  const lines = escaped.replaceAll(/^…\n/gm, String.raw`(?:[\s\S]*\n)?`)
  return new RegExp(`^${lines.replaceAll('…', String.raw`[\s\S]*`)}$`)
}
