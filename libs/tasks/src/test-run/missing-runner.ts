/** Explains why no test ran when the test command is missing, from what shells and Python print. */
import type { TestFramework } from '@cofferdam/contract'
import { plainText } from '../reports/report-draft.ts'

/** Exit code of a shell for a missing command (POSIX). */
export const COMMAND_NOT_FOUND_EXIT = 127

/** bash: "command not found", or "exec: NAME: not found". dash and our tee-report.py: "NAME: not found". */
const NOT_FOUND = /(?:^|: )([\w@./+-]{1,100}): (?:command )?not found$/m

/** The command that a shell reports as not found. Null when it reports none. */
export const commandNotFound = (printed: string): string | null => NOT_FOUND.exec(printed)?.[1] ?? null

/** Toolchains that belong to the image. Everything else is a package of the project. */
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

/** A sentence with what to do. Null when the runner exists. `printed` is the end of both streams. */
export function missingRunner(
  framework: TestFramework,
  exitCode: number | null,
  printed: string,
): string | null {
  const name = missingName(framework, exitCode, plainText(printed))
  if (name === null) return null
  if (OF_THE_IMAGE.has(name))
    return (
      `The tests did not run: ${name} is not in the sandbox's image. ` +
      'Use an image that has it, or another framework.'
    )
  return (
    `The tests did not run: ${name} is not installed. Run an install first, which is a program ` +
    'of type "install" ' +
    'with the same session, and name it among the dependencies.'
  )
}

function missingName(framework: TestFramework, exitCode: number | null, printed: string): string | null {
  if (exitCode === COMMAND_NOT_FOUND_EXIT) return commandNotFound(printed)
  return framework === 'pytest' && /^\S+: No module named '?pytest'?$/m.test(printed) ? 'pytest' : null
}
