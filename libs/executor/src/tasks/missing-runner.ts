/**
 * Why no test ran: the command that should have run them is not there. Read from what shells, Python and our
 * own reporters print.
 */
import type { TestFramework } from '@cofferdam/contract'
import { COMMAND_NOT_FOUND, NOT_FOUND } from '../missing-hint.ts'
import { plainText } from './report-draft.ts'

/** Toolchains that an image has, or has not; everything else comes with a project's own packages. */
const OF_THE_IMAGE = new Set([
  'go',
  'cargo',
  'node',
  'npm',
  'yarn',
  'pnpm',
  'bun',
  'make',
  'python3',
  'python',
])

/**
 * A sentence with what to do about it; null when the runner was there. `printed` is the end of both streams.
 */
export function missingRunner(
  framework: TestFramework,
  exitCode: number | null,
  printed: string,
): string | null {
  const name = missingName(framework, exitCode, plainText(printed))
  if (name === null) return null
  if (OF_THE_IMAGE.has(name))
    return `The tests did not run: ${name} is not in the sandbox's image. Use an image that has it, or another framework.`
  return (
    `The tests did not run: ${name} is not installed. Run an install first, which is a program of type "install" ` +
    'with the same session, and name it among the dependencies.'
  )
}

function missingName(framework: TestFramework, exitCode: number | null, printed: string): string | null {
  if (exitCode === NOT_FOUND) return COMMAND_NOT_FOUND.exec(printed)?.[1] ?? null
  return framework === 'pytest' && /^\S+: No module named '?pytest'?$/m.test(printed) ? 'pytest' : null
}
